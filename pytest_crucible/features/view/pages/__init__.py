"""The pages of the dashboard, a module each: functions from a request to a response, called on threads."""
