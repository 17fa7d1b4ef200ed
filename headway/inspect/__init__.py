"""Looking inside: traces and pictures."""
