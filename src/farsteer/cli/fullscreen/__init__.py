"""`farsteer attach` on a whole terminal, made with Textual. Imported only when it runs."""
