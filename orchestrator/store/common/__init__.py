"""What every store shares: artifacts, their seals, drafts."""
