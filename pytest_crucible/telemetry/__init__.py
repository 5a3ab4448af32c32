"""Who is told what happens: listeners side by side, and OpenTelemetry (extra `otel`)."""
