"""Facts about Helm charts: their values, images and digests."""
