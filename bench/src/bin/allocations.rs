//! Counts the allocations of a message, and prints them as JSON.

use bench::{Result, count_allocations};

fn main() -> Result {
    let counts = count_allocations(|work| allocation_counter::measure(work).count_total)?;
    println!("{}", serde_json::to_string(&counts)?);
    Ok(())
}
