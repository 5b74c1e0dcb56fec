"""Fields: a field converts one column of the data between the values as read and arrays."""

from seqloom.data.fields.base import Field
from seqloom.data.fields.collection import Fields, text_specs
from seqloom.data.fields.text import Text

__all__ = ["Field", "Fields", "Text", "text_specs"]
