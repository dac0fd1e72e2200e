"""GPU monitoring: exporter, alert rules and dashboard."""
