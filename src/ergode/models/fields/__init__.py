"""Vector fields: right-hand sides of differential equations."""
