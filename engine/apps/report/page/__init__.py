"""Pages: tables, figures and templates, and the one HTML file that they become."""
