"""Event listeners, and OpenTelemetry (extra `otel`)."""
