"""What is asked, of which runs and versions, and what of it is answered already. Executes nothing."""
