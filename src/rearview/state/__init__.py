"""Program state to a plain tree and buffers, and back in place. Knows no file and no store layout."""
