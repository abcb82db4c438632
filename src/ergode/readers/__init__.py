"""Other people's formats, read into models."""
