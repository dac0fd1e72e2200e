"""The draw of texts for readers: each kind, of one project, the same by the same seed."""

from __future__ import annotations

from tests import drawn_texts

PAGE = """
# A heading of ten words is a heading and no paragraph

A paragraph that stands in two lines,
and has enough words to be read.

- A point of a list, which has enough words to be drawn too
- short

```sh
make up # one two three four five six seven eight
```

| a | table | of | more | than | ten | words | is | left | out |

    code_of_restructured_text(one, two, three, four, five, six, seven, eight, nine, ten)
"""


def test_only_prose_of_a_page_is_drawn():
    assert list(drawn_texts.paragraphs(PAGE)) == [
        "A paragraph that stands in two lines, and has enough words to be read.",
        "- A point of a list, which has enough words to be drawn too",
    ]


def test_lines_of_one_comment_are_one_text_and_marks_for_tools_are_none():
    source = "x = 1  # noqa: S1\n# one\n# comment\n\n# another\ny = 2  # beside\n"
    assert list(drawn_texts.comments(source)) == ["one comment", "another", "beside"]


def test_texts_of_another_projects_exceptions_are_drawn_with_a_mark_for_each_value():
    assert list(drawn_texts.raised("raise ValueError(f'no such {x}')\n")) == ["no such …"]


def test_the_same_seed_draws_the_same_texts_of_each_kind():
    texts = drawn_texts.drawn([drawn_texts.ROOT], "seed")
    assert texts == drawn_texts.drawn([drawn_texts.ROOT], "seed")
    assert texts != drawn_texts.drawn([drawn_texts.ROOT], "another")
    kinds = [kind for kind, _ in texts]
    assert {kind: kinds.count(kind) for kind in kinds} == dict.fromkeys(
        ("docstring", "comment", "error text", "paragraph"), drawn_texts.EACH
    )
