"""Platform `hami`: HAMi's device plugin and scheduler, which share GPUs by memory and cores."""
