"""Pages: tables, figures and templates, combined into one HTML file."""
