"""What the report of a sweep says: numbers, findings, defenses, the paper's tables. No markup, no Ray, no MLflow."""
