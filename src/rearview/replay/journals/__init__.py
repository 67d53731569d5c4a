"""What a recorded run did, as its journals and manifests say. Executes and unpickles nothing."""
