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
            groups::publishes_that_meet_are_recorded_in_order,
            groups::publishes_that_share_nothing_are_recorded_in_order,
            groups::publishes_that_meet_are_committed_together,
            groups::a_refused_row_fails_its_publish_alone,
            groups::a_refused_commit_fails_the_publishes_that_meet,
            groups::a_publish_that_is_dropped_in_the_queue_is_not_recorded,
            groups::a_dropped_publish_takes_nobody_with_it,
            groups::a_held_write_lock_fails_all_that_wait,
            groups::an_exhausted_pool_fails_all_that_wait,
            groups::publishes_of_other_runtimes_meet,
            groups::a_panic_of_an_insert_fails_its_publish_alone,
            groups::the_services_own_insert_takes_part_where_the_driver_gains,
            groups::publishes_share_nothing_with_group_commit_off,
            encounters::records_that_are_read_together_are_told_apart,
            encounters::records_that_cannot_be_read_together_come_back,
            encounters::a_mark_without_an_open_record_is_named_alone,
            encounters::marks_that_meet_a_held_lock_give_up_together,
            deliver::a_delivery_of_another_name_runs_whatever_its_header_says,
            deliver::messages_without_an_id_run_and_are_warned_of_once,
            deliver::an_id_that_cannot_be_read_runs_untracked,
            deliver::a_handler_may_publish_on_a_pool_of_one,
            deliver::a_copy_of_a_processed_record_reaches_no_handler,
            deliver::an_absent_record_runs_untracked_or_counts_as_processed,
            deliver::the_record_of_another_name_is_left_alone,
            deliver::a_record_that_cannot_be_read_comes_back,
            deliver::a_delivery_before_the_pool_is_set_comes_back,
            deliver::a_delivery_on_an_exhausted_pool_comes_back,
            settle::an_ack_and_a_drop_close_the_record,
            settle::a_running_handler_holds_no_connection,
            settle::a_retried_record_stays_open_until_it_is_acknowledged,
            settle::a_retry_marks_nothing,
            settle::a_failed_mark_is_loud_and_leaves_the_record_open,
            settle::a_mark_that_meets_a_held_lock_gives_up_within_the_bound,
            settle::a_mark_that_finds_no_open_record_says_so,
            settle::a_failed_publish_of_the_handler_changes_no_outcome,
            settle::a_publish_of_the_handler_closes_no_record,
            settle::somebodys_open_transaction_swallows_no_delivery,
            settle::somebodys_open_transaction_swallows_no_mark,
            unsettled::a_panic_leaves_its_record_open_and_the_others_are_handled,
            unsettled::a_panic_that_is_retried_closes_its_record_later,
            unsettled::a_panic_that_stops_the_service_leaves_its_record_open,
            unsettled::a_handler_that_hangs_at_the_stop_leaves_its_record_open,
            custom::a_fetch_of_the_services_own_leaves_the_rest_to_the_backend,
            custom::a_record_that_the_services_own_fetch_hides_is_absent,
            custom::the_services_own_steps_run_in_place_of_the_backends,
            custom::each_name_has_a_record_type_of_its_own,
            custom::a_retry_takes_no_connection,
            check::the_check_names_a_table_that_is_missing,
            check::the_check_without_a_pool_says_so,
            retries::a_retry_copy_keeps_its_record,
            retries::a_retry_copy_asks_no_database,
            retries::a_forwarded_retry_copy_is_a_new_message,
            retries::several_handlers_of_a_name_all_run,
            retries::a_native_redelivery_leaves_no_copy_to_wait_for,
            setup::mistakes_in_the_setup_are_refused,
            setup::every_handle_sees_a_pool_that_is_set_later,
            setup::a_handle_passes_the_other_names,
            setup::a_second_pool_is_refused_and_the_first_one_stays,
            setup::what_a_publish_layer_wraps_is_recorded_wrapped,
            start::open_records_are_sent_again_in_order,
            start::the_publishers_own_headers_lie_under_the_stored_ones,
            start::what_the_start_sends_is_processed_by_its_handlers,
            start::the_start_sends_nothing_that_is_published_meanwhile,
            start::the_start_sends_what_was_open_and_still_is,
            start::a_start_for_some_names_sends_those_alone,
            start::instances_that_start_together_lose_nothing,
            report::a_record_that_cannot_be_sent_starves_no_other,
            report::a_row_that_cannot_be_read_starves_no_other,
            report::a_report_names_a_hundred_failures_and_counts_the_rest,
            report::a_start_that_may_fail_logs_its_report,
            report::a_failed_start_fails_the_service,
            report::a_start_without_a_pool_fails,
            report::a_start_without_a_table_fails_and_names_the_names,
            report::a_table_that_goes_away_half_way_fails_the_start,
            report::a_start_on_an_exhausted_pool_fails_within_the_timeout,
            pace::a_start_is_at_most_a_window_ahead_of_the_handlers,
            pace::a_large_backlog_is_handled_in_one_start,
            pace::a_receiver_elsewhere_is_sent_all_in_windows,
            pace::a_start_holds_no_connection_while_it_sends,
            pace::a_record_that_was_not_sent_takes_no_room,
            deliveries::a_subscription_of_another_name_marks_what_it_handled,
            deliveries::nothing_is_recorded_under_the_name_of_a_subscription,
            deliveries::a_record_that_the_subscription_does_not_deliver_is_left_alone,
            deliveries::a_pattern_and_its_name_hide_nothing_from_each_other,
            deliveries::what_a_pattern_takes_up_makes_room_at_the_start,
            deliveries::a_retry_copy_of_a_pattern_keeps_its_record,
            deliveries::mistakes_in_the_deliveries_are_refused,
            batches::a_batch_handler_settles_each_record_by_its_outcome,
            batches::a_large_batch_is_taken_and_settled,
            batches::elements_without_a_record_run_untracked,
            batches::a_batch_that_cannot_be_read_comes_back,
            batches::the_retry_copy_of_an_element_keeps_its_record,
            batches::a_batch_that_is_not_settled_leaves_its_records_open,
            batches::a_batch_handler_is_one_of_several,
            batches::outcomes_of_another_number_settle_nothing,
            batches::the_services_own_steps_run_for_each_element,
            batches::a_failed_mark_of_a_batch_is_loud,
            batches::somebodys_open_transaction_swallows_no_element,
            coverage::open_records_that_nobody_takes_up_are_named_once,
            coverage::open_records_that_are_taken_up_are_not_named,
            coverage::what_a_broker_dropped_while_others_arrived_is_sent_once_more,
            attempts::a_message_out_of_attempts_comes_back_at_each_start,
            attempts::a_dead_letter_of_a_registered_name_has_a_record_of_its_own,
            attempts::a_dead_letter_of_another_name_passes,
            attempts::attempts_that_an_outage_spends_leave_the_record_open,
            transaction::a_transaction_inside_the_outboxs_layer_does_not_meet_the_mark,
            transaction::a_transaction_outside_the_outboxs_layer_is_marked_behind,
            outage::messages_that_arrive_in_an_outage_are_handled_after_it,
            unsent::a_header_that_the_broker_refuses_fails_the_publish_and_names_the_record,
            unsent::a_header_that_the_broker_refuses_is_named_by_the_start,
            unsent::a_message_that_was_taken_and_lost_is_sent_by_the_next_start,
            resend::a_resend_has_no_publish_options,
            resend::a_resend_without_a_headers_column_has_the_id_alone,
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

/// Writes the tests of an id's type for a [`Stand`](crate::conformance::Stand) whose records have
/// such ids.
#[macro_export]
macro_rules! conformance_ids {
    ($stand:ty) => {
        $crate::conformance! { on $stand;
            ids::an_id_finds_its_record_and_closes_it,
            ids::an_open_record_is_sent_again_by_its_id,
            ids::more_records_than_a_page_holds_are_sent_again,
        }
    };
}

/// Writes the tests of declared consumers for a [`Stand`](crate::conformance::Stand) whose records
/// have marks.
#[macro_export]
macro_rules! conformance_consumers {
    ($stand:ty) => {
        $crate::conformance! { on $stand;
            consumers::a_record_closes_with_the_last_of_its_consumers,
            consumers::consumers_that_mark_at_once_lose_no_mark,
            encounters::consumers_whose_marks_meet_lose_none,
            consumers::a_removed_consumer_keeps_no_record_open,
            consumers::a_consumer_that_is_declared_later_gets_what_is_under_way,
            consumers::an_undeclared_handler_marks_nothing,
            consumers::a_batch_handler_is_a_consumer,
            consumers::a_consumer_that_is_not_mounted_is_named_at_the_start,
            consumers::mistakes_in_the_consumers_are_refused,
        }
    };
}

/// Writes the test of a storm of publishes for a [`Stand`](crate::conformance::Stand) with integer ids.
/// It is for one stand of each driver: it takes some seconds.
#[macro_export]
macro_rules! conformance_storm {
    ($stand:ty) => {
        $crate::conformance! { on $stand;
            storm::each_publish_of_a_storm_has_the_record_that_it_was_told_of,
        }
    };
}
