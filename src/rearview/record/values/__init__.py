"""What the user logs, as something the store can keep exactly."""
