"""What can stand where attention stands, one file each."""
