"""The content of reports: numbers, findings, defenses, the paper's tables. No markup, no Ray, no MLflow."""
