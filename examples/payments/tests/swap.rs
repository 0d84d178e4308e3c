//! What the README says of another database and another driver is what the files say.

const README: &str = include_str!("../README.md");
const HANDLERS: &str = include_str!("../src/handlers.rs");
const BEFORE: &str = include_str!("../src/database/sqlite_sqlx.rs");
const AFTER: &str = include_str!("../src/database/postgres_tokio.rs");

#[test]
fn the_handlers_that_serve_all_drivers_name_no_database_and_no_outbox() {
    let handlers = HANDLERS.to_lowercase();
    for word in ["outbox", "sql", "postgres", "database", "pool"] {
        assert!(!handlers.contains(word), "{word}");
    }
}

#[test]
fn the_swap_in_the_readme_is_the_difference_between_two_drivers() {
    let (_, swap) = README.split_once("```diff\n").expect("the README has it");
    let (swap, _) = swap.split_once("```").expect("it ends");
    let (mut before, mut after) = (BEFORE.lines(), AFTER.lines());
    for line in swap.lines().skip(2).filter(|line| !line.starts_with("@@")) {
        let (side, code) = line.split_at_checked(1).unwrap_or((" ", line));
        let in_before = side == "+" || before.any(|before| before == code);
        let in_after = side == "-" || after.any(|after| after == code);
        assert!(
            in_before && in_after,
            "not there, or not in this order: {line}"
        );
    }
}
