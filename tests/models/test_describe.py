"""Complete descriptions of models."""

from seqloom.models.describe import complete_options


def test_attention_option_of_a_custom_part_is_not_completed():
    """It used to be completed like that of a recurrent decoder, which failed for lack of a ``context`` option."""

    class Custom:
        """Attends."""

        def __init__(self, *, attention: dict | None = None) -> None: ...

    assert complete_options("encoder 'custom'", Custom, {"attention": {"a": 1}}) == {"attention": {"a": 1}}
