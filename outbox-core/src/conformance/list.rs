//! The one list of cases: a named test for each, on a stand.

/// Writes the suite's tests for a [`Stand`](crate::conformance::Stand), one for each case.
#[macro_export]
macro_rules! conformance {
    ($stand:ty) => {
        $crate::conformance! { on $stand;
            publish::a_name_that_is_not_registered_passes_without_a_record,
            publish::a_name_that_is_not_registered_asks_no_database,
            publish::a_wrapped_publisher_records_before_it_sends,
            publish::a_handler_records_what_it_publishes,
            publish::the_headers_column_keeps_every_byte,
            publish::nothing_is_sent_when_the_record_cannot_be_written,
            publish::nothing_is_sent_when_the_commit_is_refused,
            publish::a_failed_send_leaves_the_record_open,
            publish::a_publish_without_a_pool_fails_and_sends_nothing,
            publish::a_held_write_lock_is_an_error_within_the_bound,
            publish::a_lock_released_within_the_bound_is_waited_for,
            publish::a_forwarded_id_becomes_a_record_of_its_own,
            publish::a_handler_that_forwards_its_headers_records_each_message,
            connections::a_publish_on_an_exhausted_pool_fails_within_the_timeout,
            connections::somebodys_open_transaction_does_not_swallow_the_record,
            connections::a_publish_cancelled_anywhere_leaves_the_pool_clean,
            connections::a_handler_that_computes_on_its_own_thread_holds_no_connection,
        }
        $crate::conformance! { off $stand;
            switch::switch_off_nothing_is_recorded_marked_or_sent_again,
        }
    };
    ($position:ident $stand:ty; $($topic:ident :: $case:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $case() {
                $crate::conformance::$position(
                    $crate::conformance::$topic::$case::<$stand>()
                )
                .await;
            }
        )*
    };
}
