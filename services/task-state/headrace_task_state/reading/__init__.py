"""Reading: the view in Redis, and the log where the view lags."""
