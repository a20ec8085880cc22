//! Laws for any group, and the formulas of the documents.

use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::ByteCount;
use crate::congestion::{Bottleneck, Subflow};

/// Window in bytes, RTT in ms, bytes between losses.
type Figures = (u64, u64, u64);

fn figures() -> impl Strategy<Value = Vec<Figures>> {
    proptest::collection::vec((2400u64..20_000_000, 1u64..2000, 0u64..100_000_000), 1..8)
}

/// The value of a law for each path of a group.
fn each<T>(paths: &[Figures], law: impl Fn(Group<'_>) -> T) -> Vec<T> {
    let subflow = |&(window, rtt, interval): &Figures| {
        Subflow::new(ByteCount(window), Duration::from_millis(rtt), ByteCount(interval))
            .with_bottleneck(Bottleneck::Same)
    };
    let one = |at: usize| {
        let mut subflows: Vec<_> = paths.iter().map(subflow).collect();
        let own = subflows.remove(at);
        law(Group::new(Member::new(own.window, own.rtt, own.loss_interval), &subflows))
    };
    (0..paths.len()).map(one).collect()
}

fn parts(gains: Vec<i64>) -> Vec<f64> {
    gains.into_iter().map(|gain| gain as f64 / ONE as f64).collect()
}

fn rates(paths: &[Figures]) -> Vec<f64> {
    paths.iter().map(|(window, rtt, _)| *window as f64 / *rtt as f64).collect()
}

fn largest(values: &[f64]) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

#[test]
fn every_law_is_reno_for_a_single_path() {
    let alone = [(12_000, 50, 100_000)];
    for gain in [Alone::gain, Lia::gain, Olia::gain, Balia::gain] {
        assert_eq!(each(&alone, gain), [ONE.cast_signed()]);
    }
    for reduction in [Alone::reduction, Lia::reduction, Olia::reduction, Balia::reduction] {
        assert_eq!(each(&alone, reduction), [ONE / 2]);
    }
}

#[test]
fn paths_with_bottlenecks_of_their_own_are_not_in_the_group() {
    let other = Subflow::new(ByteCount(50_000), Duration::from_millis(20), ByteCount(1_000_000));
    let own = Member::new(ByteCount(12_000), Duration::from_millis(50), ByteCount(1000));
    let subflows = [other, other];
    let group = Group::new(own, &subflows);
    assert_eq!((group.members().count(), group.share(own)), (1, ONE));
    assert_eq!([Lia::gain(group), Olia::gain(group), Balia::gain(group)], [ONE.cast_signed(); 3]);
    assert_eq!(Others::of(&subflows), Others::default());
}

/// The windows, in datagrams, at which growth and reductions cancel out if each path has the same loss rate.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "windows are small and positive")]
fn equilibrium(rtts: &[u64], loss: f64, law: fn(Group<'_>) -> i64, cut: fn(Group<'_>) -> u64) -> Vec<f64> {
    let mut windows = vec![20.0; rtts.len()];
    for _ in 0..20_000 {
        let scaled = |(window, rtt): (&f64, &u64)| ((window * 1e6) as u64, *rtt, 1_000_000);
        let paths: Vec<Figures> = windows.iter().zip(rtts).map(scaled).collect();
        let (gains, cuts) = (parts(each(&paths, law)), each(&paths, cut));
        for ((window, rtt), (gain, cut)) in windows.iter_mut().zip(rtts).zip(gains.iter().zip(cuts)) {
            // In a step of 1 ms, 1/rtt of a window is acknowledged.
            let lost = *window * *window * loss * cut as f64 / ONE as f64;
            *window = f64::max(*window + (gain - lost) / *rtt as f64, 1.0);
        }
    }
    windows
}

#[test]
fn with_equal_loss_a_group_gets_the_rate_of_reno_on_its_best_path() {
    let loss: f64 = 0.0005;
    // RFC 5681: the window at which 1 = loss · w² / 2.
    let reno = (2.0 / loss).sqrt();
    for rtts in [&[20, 20][..], &[20, 100], &[10, 20, 40], &[50, 50, 50, 50]] {
        let best = reno / *rtts.iter().min().unwrap() as f64;
        for (name, law, cut, range) in [
            ("lia", Lia::gain as fn(Group<'_>) -> i64, Lia::reduction as fn(Group<'_>) -> u64, 0.97..=1.03),
            ("olia", Olia::gain, Olia::reduction, 0.85..=1.03),
            // Less strict than the two others (BALIA's draft, section 2).
            ("balia", Balia::gain, Balia::reduction, 0.9..=1.3),
        ] {
            let windows = equilibrium(rtts, loss, law, cut);
            let sum: f64 = windows.iter().zip(rtts).map(|(window, rtt)| window / *rtt as f64).sum();
            assert!(range.contains(&(sum / best)), "{name} {rtts:?}: {} {windows:?}", sum / best);
        }
    }
}

#[test]
fn olia_moves_load_to_the_best_path_but_not_among_equals() {
    // The second path has a smaller window and rarer losses: it belongs to the collected paths.
    let paths = [(60_000, 20, 100_000), (20_000, 20, 900_000)];
    let squares = [(0.75_f64).powi(2), (0.25_f64).powi(2)];
    let shifts: Vec<f64> =
        parts(each(&paths, Olia::gain)).iter().zip(squares).map(|(gain, square)| gain - square).collect();
    assert!((shifts[0] + 0.5).abs() < 1e-6 && (shifts[1] - 0.5).abs() < 1e-6, "{shifts:?}");
    let equal = parts(each(&[(30_000, 20, 500_000); 2], Olia::gain));
    assert!(equal.iter().all(|gain| (gain - 0.25).abs() < 1e-6), "{equal:?}");
}

proptest! {
    #[test]
    fn no_path_grows_faster_than_reno(paths in figures()) {
        for law in [Lia::gain, Balia::gain] {
            prop_assert!(each(&paths, law).iter().all(|gain| (0..=ONE.cast_signed()).contains(gain)));
        }
        // OLIA gives to a collected path what it takes from another one.
        let gains = each(&paths, Olia::gain);
        prop_assert!(gains.iter().all(|gain| gain.unsigned_abs() <= ONE + ONE / 2));
    }

    #[test]
    fn lia_is_the_formula_of_rfc_6356(paths in figures()) {
        let rates = rates(&paths);
        let sum: f64 = rates.iter().sum();
        let best = paths.iter().map(|(window, rtt, _)| *window as f64 / (*rtt as f64).powi(2));
        let factor = best.fold(0.0, f64::max) / sum.powi(2);
        for ((window, ..), gain) in paths.iter().zip(parts(each(&paths, Lia::gain))) {
            let expected = f64::min(1.0, *window as f64 * factor);
            prop_assert!((gain - expected).abs() < 1e-3 * expected + 1e-5, "{gain} instead of {expected}");
        }
    }

    #[test]
    fn balia_is_the_formula_of_its_draft(paths in figures()) {
        let rates = rates(&paths);
        let (sum, largest) = (rates.iter().sum::<f64>(), largest(&rates));
        let cuts = each(&paths, Balia::reduction);
        for ((rate, gain), cut) in rates.iter().zip(parts(each(&paths, Balia::gain))).zip(cuts) {
            let alpha = largest / rate;
            let expected = (rate / sum).powi(2) * (1.0 + alpha) / 2.0 * (4.0 + alpha) / 5.0;
            prop_assert!((gain - expected).abs() < 1e-3 * expected + 1e-5, "{gain} instead of {expected}");
            let (cut, expected) = (cut as f64 / ONE as f64, alpha.min(1.5) / 2.0);
            prop_assert!((cut - expected).abs() < 1e-2, "{cut} instead of {expected}");
        }
    }

    #[test]
    fn olia_takes_as_much_as_it_gives(paths in figures()) {
        let rates = rates(&paths);
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| (rate / sum).powi(2)).sum();
        let total: f64 = parts(each(&paths, Olia::gain)).iter().sum();
        prop_assert!((total - squares).abs() < 1e-5, "{total} {squares}");
    }

    #[test]
    fn extreme_values_break_nothing(
        paths in proptest::collection::vec((any::<u64>(), any::<u64>(), any::<u64>()), 1..8)
    ) {
        let cut: Vec<Figures> = paths.iter().map(|(w, r, l)| (*w, r >> 20, *l)).collect();
        for law in [Lia::gain, Olia::gain, Balia::gain] {
            prop_assert!(each(&cut, law).iter().all(|gain| gain.unsigned_abs() <= 2 * ONE));
        }
        prop_assert!(each(&cut, Balia::reduction).iter().all(|cut| *cut <= ONE));
    }
}
