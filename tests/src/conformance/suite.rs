//! The list of all checks, and the macro that makes tests of them.

/// Makes a test of every check. `$subject` names a function without arguments, asynchronous, that makes a fresh
/// [`Subject`](crate::conformance::Subject). With `in doubt` after it, only of those that hold also where a caller
/// does not learn whether its write was made; of each other check the list says why it does not.
#[macro_export]
macro_rules! conformance {
    ($subject:ident) => {
        $crate::conformance! { @list @all $subject }
    };
    ($subject:ident in doubt) => {
        $crate::conformance! { @list @certain $subject }
    };
    (@list $($first:tt)*) => {
        $crate::conformance! { $($first)*
            conditions {
                an_absent_key_can_be_claimed_once
                an_item_must_exist
                a_put_replaces_the_whole_item
                of_many_writers_of_one_key_one_wins
                what_was_written_is_read_at_once
                new_items_are_written_until_first_existing_one
                new_items_are_not_begun_after_timeout
            } not in doubt {
                an_attribute_must_be_equal: "puts what is stored already, which looks like the put that was in doubt"
                deletes_have_conditions_too: "deletes what is not there, which looks like the delete that was in doubt"
                increments_under_a_condition_are_never_lost: "two writers put equal items, and overwrite each other"
            }
            order {
                sort_keys_are_compared_by_utf8_bytes
                ranges_include_both_ends
                limits_bound_a_page
                pages_end_at_a_megabyte
                partitions_are_apart
                only_the_attributes_asked_for_are_read
                writes_between_pages_do_no_harm
            } not in doubt {}
            values {
                every_type_comes_back_as_it_was
                numbers_come_back_as_they_were
                text_comes_back_as_it_was
                bytes_come_back_wherever_they_are
                items_up_to_the_limit_are_taken
                keys_up_to_the_limit_are_taken
                what_an_index_cannot_hold_is_refused
            } not in doubt {}
            transactions {
                all_or_nothing
                every_kind_of_write_together
                updates_change_what_they_name
                add_counts_from_nothing
                add_needs_a_whole_number_in_an_item
                no_item_twice_and_not_too_many
                concurrent_adds_are_never_lost
            } not in doubt {}
            indexes {
                an_item_appears_moves_and_disappears
                half_a_key_is_not_in_the_index
                index_reads_by_range_in_both_directions
                scores_are_ordered_as_numbers
                pages_of_an_index_miss_nothing
            } not in doubt {}
            feed {
                a_reader_does_not_wait_forever
                a_position_is_where_one_left_off
                a_position_that_is_lost_is_a_gap
            } not in doubt {
                every_write_is_told: "counts changes, but a write in doubt is made, and told, again"
                what_did_not_happen_is_not_told: "counts changes too"
                a_reader_waits_for_a_change: "counts changes too"
            }
            expiry {
                what_has_expired_is_not_found
                expired_items_take_no_place_in_pages
                new_item_replaces_an_expired_one
            } not in doubt {
                what_has_expired_counts_as_absent: "deletes what has expired: the same as deleting what is not there"
            }
            time {
                an_engine_that_has_answered_tells_the_time
            } not in doubt {}
        }
    };
    (@all $subject:ident
        $($module:ident { $($check:ident)* } not in doubt { $($doubtful:ident: $why:literal)* })*
    ) => {
        $($crate::conformance! { @module $subject $module $($check)* $($doubtful)* })*
    };
    (@certain $subject:ident
        $($module:ident { $($check:ident)* } not in doubt { $($doubtful:ident: $why:literal)* })*
    ) => {
        $($crate::conformance! { @module $subject $module $($check)* })*
    };
    (@module $subject:ident $module:ident $($check:ident)*) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $check() {
                    let subject = super::$subject().await;
                    $crate::conformance::$module::$check(&subject).await.expect("the check runs through");
                }
            )*
        }
    };
}
