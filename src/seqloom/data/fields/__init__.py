"""Fields: what a column of the data is, from the value as read to an array and back."""

from seqloom.data.fields.base import Field
from seqloom.data.fields.text import Text, text_fields

__all__ = ["Field", "Text", "text_fields"]
