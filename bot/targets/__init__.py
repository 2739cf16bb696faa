"""Who runs it: targets, environments, sandbox, worker client and pool."""
