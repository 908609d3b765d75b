"""Commands that task state carries out for workers, whose own NATS users may not."""
