"""Commands that workers have task state carry out, because their own NATS users may not."""
