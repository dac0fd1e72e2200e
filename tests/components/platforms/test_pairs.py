"""Each pair of feature and platform is tried, or refused by the feature's name."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.components.platforms.pairs import FEATURES, NAMES, base, declared, effect, faults, table

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/reference/platforms.md"
PAIRS = [
    pytest.param(
        platform,
        feature,
        id=f"{platform}: {feature}",
        marks=pytest.mark.clusters("pair", f"{platform}: {feature}"),
    )
    for platform in NAMES
    for feature in FEATURES
]


@pytest.mark.promise(
    "Each feature changes what is deployed or checked on a platform, or is refused there by name."
)
@pytest.mark.parametrize(("platform", "feature"), PAIRS)
def test_a_feature_has_an_effect_on_a_platform_or_is_refused_by_name(
    platform: str, feature: str
) -> None:
    document = declared(platform, feature)
    refused = faults(document)
    if not refused:
        assert effect(document) != effect(base(platform))
        return
    written = FEATURES[feature](platform)
    last = {str(key) for section, value in written.items() for key in (section, *keys_of(value))}
    assert all({*map(str, fault.location)} & last for fault in refused), refused


def keys_of(value: object) -> set[str]:
    """Return all keys in a setting."""
    if isinstance(value, dict):
        return {*map(str, value), *(key for inner in value.values() for key in keys_of(inner))}
    if isinstance(value, list):
        return {key for inner in value for key in keys_of(inner)}
    return set()


def test_a_platform_without_a_feature_is_accepted() -> None:
    assert [faults(base(platform)) for platform in NAMES] == [() for _ in NAMES]


def test_the_page_has_the_table_of_all_pairs() -> None:
    assert table() in PAGE.read_text(encoding="utf-8")
