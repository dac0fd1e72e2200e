"""What a run would change, as a document, and the texts made of the document."""
