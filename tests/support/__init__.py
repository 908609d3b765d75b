"""What tests share: servers, stacks, clients."""
