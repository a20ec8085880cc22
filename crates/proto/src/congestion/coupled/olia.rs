//! OLIA, the opportunistic linked increases of draft-khalili-mptcp-congestion-control-05.

use super::Law;
use super::group::{Group, Member, ONE, product};

/// Moves the load of a group to its best paths, and uses all paths that are equally good.
#[derive(Debug, Clone, Copy)]
pub struct Olia;

impl Law for Olia {
    const NAME: &'static str = "olia";

    /// Section 3: bytes·MSS · ((w/r²) / (Σ w/r)² + α/w), so the square of the share, and α.
    fn gain(group: Group<'_>) -> i64 {
        let share = group.share(group.own);
        i64::try_from(product(share, share)).unwrap_or_default() + shift(group)
    }
}

/// α: takes from the largest windows and gives to the best paths with smaller ones.
fn shift(group: Group<'_>) -> i64 {
    let largest = group.members().map(|member| member.window).max().unwrap_or(group.own.window);
    let is_largest = |member: &Member| member.window == largest;
    let collected = |member: &Member| !is_largest(member) && is_best(group, member);
    let (all, number_collected) = (group.members().count(), group.members().filter(collected).count());
    let part = |number: usize| {
        let number = u64::try_from(all * number.max(1)).unwrap_or(u64::MAX);
        i64::try_from(ONE / number).unwrap_or_default()
    };
    if number_collected == 0 {
        0
    } else if collected(&group.own) {
        part(number_collected)
    } else if is_largest(&group.own) {
        -part(group.members().filter(is_largest).count())
    } else {
        0
    }
}

/// Whether no member has a larger l/r²: TCP would be fastest there.
fn is_best(group: Group<'_>, member: &Member) -> bool {
    let interval = |member: &Member| u128::from(member.loss_interval.get());
    // Squares of RTTs are limited to 2³⁰ µs, so that the products fit.
    let square = |member: &Member| member.micros().min(1 << 30).pow(2);
    group.members().all(|other| interval(member) * square(&other) >= interval(&other) * square(member))
}
