from pytest_crucible.datasets.check import Check as Check
from pytest_crucible.datasets.check import check_samples as check_samples
from pytest_crucible.datasets.expectation import column_check as column_check
from pytest_crucible.datasets.expectation import expect_all as expect_all
from pytest_crucible.datasets.expectation import expect_any as expect_any
from pytest_crucible.datasets.expectation import expect_at_least as expect_at_least
from pytest_crucible.datasets.expectation import row_check as row_check
from pytest_crucible.features.contamination.compare import expect_not_contaminated as expect_not_contaminated
from pytest_crucible.features.contamination.drift import expect_no_data_drift as expect_no_data_drift
from pytest_crucible.features.data_checks.answers import expect_answer_not_in_prompt as expect_answer_not_in_prompt
from pytest_crucible.features.data_checks.answers import expect_balanced_answer_key as expect_balanced_answer_key
from pytest_crucible.features.data_checks.answers import (
    expect_length_not_to_predict_label as expect_length_not_to_predict_label,
)
from pytest_crucible.features.data_checks.statistics import (
    expect_column_mean_to_be_between as expect_column_mean_to_be_between,
)
from pytest_crucible.features.data_checks.statistics import (
    expect_column_median_to_be_between as expect_column_median_to_be_between,
)
from pytest_crucible.features.data_checks.statistics import expect_column_quantile_to_be as expect_column_quantile_to_be
from pytest_crucible.features.data_checks.statistics import (
    expect_column_stdev_to_be_between as expect_column_stdev_to_be_between,
)
from pytest_crucible.features.data_checks.statistics import (
    expect_column_values_to_be_normal as expect_column_values_to_be_normal,
)
from pytest_crucible.features.data_checks.statistics import expect_feature_correlation as expect_feature_correlation
from pytest_crucible.features.data_checks.statistics import expect_group_share_below as expect_group_share_below
from pytest_crucible.features.data_checks.statistics import expect_label_balance as expect_label_balance
from pytest_crucible.features.data_checks.statistics import expect_label_cardinality as expect_label_cardinality
from pytest_crucible.features.data_checks.statistics import expect_no_duplicates as expect_no_duplicates
from pytest_crucible.features.data_checks.statistics import expect_one_answer_per_input as expect_one_answer_per_input
from pytest_crucible.features.data_checks.statistics import (
    expect_table_row_count_to_be_between as expect_table_row_count_to_be_between,
)
from pytest_crucible.features.data_checks.texts import expect_clean_text as expect_clean_text
from pytest_crucible.features.data_checks.texts import (
    expect_column_string_length_distribution as expect_column_string_length_distribution,
)
from pytest_crucible.features.data_checks.texts import (
    expect_column_values_to_be_valid_emails as expect_column_values_to_be_valid_emails,
)
from pytest_crucible.features.data_checks.texts import (
    expect_column_values_to_be_valid_urls as expect_column_values_to_be_valid_urls,
)
from pytest_crucible.features.data_checks.texts import (
    expect_column_values_to_be_valid_uuids as expect_column_values_to_be_valid_uuids,
)
from pytest_crucible.features.data_checks.texts import (
    expect_column_values_to_match_format as expect_column_values_to_match_format,
)
from pytest_crucible.features.data_checks.texts import expect_json_schema as expect_json_schema
from pytest_crucible.features.data_checks.texts import expect_no_canaries as expect_no_canaries
from pytest_crucible.features.data_checks.texts import expect_no_personal_data as expect_no_personal_data
from pytest_crucible.features.data_checks.texts import expect_no_secrets as expect_no_secrets
from pytest_crucible.features.data_checks.texts import expect_pandera as expect_pandera
from pytest_crucible.features.data_checks.texts import expect_prompts_to_fit as expect_prompts_to_fit
from pytest_crucible.features.data_checks.values import expect_column_count_to_equal as expect_column_count_to_equal
from pytest_crucible.features.data_checks.values import (
    expect_column_timestamp_intervals_to_be_regular as expect_column_timestamp_intervals_to_be_regular,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_timestamps_to_be_chronological as expect_column_timestamps_to_be_chronological,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_timestamps_to_be_within_range as expect_column_timestamps_to_be_within_range,
)
from pytest_crucible.features.data_checks.values import expect_column_to_be_of_type as expect_column_to_be_of_type
from pytest_crucible.features.data_checks.values import expect_column_to_exist as expect_column_to_exist
from pytest_crucible.features.data_checks.values import (
    expect_column_value_lengths_to_be_between as expect_column_value_lengths_to_be_between,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_values_to_be_between as expect_column_values_to_be_between,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_values_to_be_decreasing as expect_column_values_to_be_decreasing,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_values_to_be_in_set as expect_column_values_to_be_in_set,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_values_to_be_increasing as expect_column_values_to_be_increasing,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_values_to_be_unique as expect_column_values_to_be_unique,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_values_to_be_valid_timestamps as expect_column_values_to_be_valid_timestamps,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_values_to_match_regex as expect_column_values_to_match_regex,
)
from pytest_crucible.features.data_checks.values import (
    expect_column_values_to_not_be_null as expect_column_values_to_not_be_null,
)
from pytest_crucible.features.data_checks.values import expect_no_missing_values as expect_no_missing_values
