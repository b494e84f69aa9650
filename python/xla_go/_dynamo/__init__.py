"""The backend of torch.compile. Nothing here is imported before torch._dynamo is, but for `registry`."""
