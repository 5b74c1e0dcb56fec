"""Fields: what a column of the data is, from the value as read to an array and back."""

from seqloom.data.fields.base import Field
from seqloom.data.fields.collection import Fields, text_specs
from seqloom.data.fields.text import Text

__all__ = ["Field", "Fields", "Text", "text_specs"]
