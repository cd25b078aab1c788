"""What workers say to each other."""
