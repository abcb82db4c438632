"""An explicit method, algebraically stabilised for stiff species."""
