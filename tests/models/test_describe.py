"""Complete descriptions: what is written out of a part's options."""

from seqloom.models.describe import complete_options


def test_an_attention_of_a_part_of_ones_own_is_its_own():
    """It was taken for that of a recurrent decoder, whose context was asked for."""

    class Mine:
        """Attends."""

        def __init__(self, *, attention: dict | None = None) -> None: ...

    assert complete_options("encoder 'mine'", Mine, {"attention": {"a": 1}}) == {"attention": {"a": 1}}
