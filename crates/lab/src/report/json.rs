//! Documents for programs. `docs/lab.md` describes their fields.

use std::time::Duration;

use serde_json::{Map, Value, json};

use super::table::{latency, of_possible, rows};
use super::{Origin, cross, describe, table};
use crate::campaign::{Case, Plan, Results, Run, Standing, Timing, Way};
use crate::measures::{Measures, Recovery, Spread, count};
use crate::outcome::{Arrivals, Outcome};
use crate::scenario::Scenario;

/// Everything about a campaign in one document: every setting and every run.
pub fn document(results: &Results, origin: &Origin) -> Value {
    let plan = &results.plan;
    let runs = results.runs.iter().map(|run| with_course(run_line(plan, run), plan, run));
    json!({
        "manyway": origin.version,
        "command": origin.command,
        "date": origin.date,
        "machine": results.machine,
        "plan": {
            "repetitions": plan.repetitions,
            "seed": plan.seed,
            "timing": match plan.timing { Timing::Virtual => "virtual", Timing::Real => "real" },
            "budget": plan.budget.map(seconds),
        },
        "scenarios": plan.cases.iter().map(case).collect::<Vec<_>>(),
        "summary": summary(results),
        "skipped": results.skipped.iter().map(|skip| {
            let label = skip.case.and_then(|place| plan.cases.get(place)).map(Case::label);
            json!({ "contender": skip.contender, "case": label, "reason": skip.reason })
        }).collect::<Vec<_>>(),
        "notes": table::remarks(results),
        "end": results.end.name(),
        "elapsed": seconds(results.took),
        "runs": runs.collect::<Vec<_>>(),
    })
}

/// A run, without its course: the output of `--json` when it ends.
pub fn run_line(plan: &Plan, run: &Run) -> Value {
    let mut line = Map::new();
    let Some(case) = plan.cases.get(run.case) else { return line.into() };
    let mut set = |key: &str, value: Value| line.insert(key.to_owned(), value);
    let measures = &run.measures;
    set("scenario", case.scenario.name.clone().into());
    set("reversed", (case.way == Way::Reversed).into());
    set("contender", case.contenders.get(run.contender).map(ToString::to_string).into());
    set("repetition", (run.repetition + 1).into());
    set("seed", run.seed.into());
    set("counts", (run.standing == Standing::Counts).into());
    set("bits_per_second", measures.goodput.bits_per_second().into());
    set("bytes", measures.bytes.get().into());
    set("longest_stall", seconds(measures.silence));
    set("set_up", measures.set_up.map_or(Value::Null, seconds));
    set("recoveries", measures.recoveries.iter().map(|one| recovery(&case.scenario, one)).collect());
    set("delivery", delivery(measures));
    set("cpu", cpu(measures));
    set("messages", messages(measures));
    set("cross", cross::of_run(&case.scenario, measures));
    set("routes", routes(&case.scenario, measures));
    set("dropped", measures.dropped.into());
    set("failure", run.failure.clone().into());
    set("remarks", run.remarks.clone().into());
    set("disturbance", serde_json::to_value(run.disturbance).unwrap_or_default());
    set("elapsed", seconds(run.took));
    line.into()
}

fn case(case: &Case) -> Value {
    let scenario = &case.scenario;
    json!({
        "scenario": scenario.name,
        "reversed": case.way == Way::Reversed,
        "title": scenario.title,
        "group": scenario.group,
        "source": scenario.source,
        "duration": seconds(scenario.duration),
        "contenders": case.contenders.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "routes": scenario.routes.iter().map(|route| {
            let links = route.links.iter().filter_map(|link| scenario.links.get(*link));
            json!({ "name": route.name, "links": links.map(|link| &link.name).collect::<Vec<_>>() })
        }).collect::<Vec<_>>(),
        "links": scenario.links.iter().map(|link| {
            json!({ "name": link.name, "up": describe::link(&link.up), "down": describe::link(&link.down) })
        }).collect::<Vec<_>>(),
        "traffic": scenario.traffic.iter().map(describe::traffic).collect::<Vec<_>>(),
        "cross": scenario.cross_traffic.iter().map(|one| describe::cross(scenario, one)).collect::<Vec<_>>(),
        "events": scenario.events.iter().map(|event| {
            json!({ "at": seconds(event.at), "change": describe::change(scenario, &event.change) })
        }).collect::<Vec<_>>(),
    })
}

fn summary(results: &Results) -> Vec<Value> {
    let line = |row: &table::Row| -> Option<Value> {
        let case = results.plan.cases.get(row.case)?;
        let spread = |figure: &dyn Fn(&Measures) -> Option<f64>| -> Option<Spread> {
            results.spread(row.case, row.contender, figure)
        };
        let goodput = spread(&|measures| Some(measures.megabits()));
        let counted = || results.of(row.case, row.contender);
        Some(json!({
            "scenario": case.scenario.name,
            "reversed": case.way == Way::Reversed,
            "contender": row.name,
            "megabits": goodput,
            "of_possible": of_possible(results, row.case, goodput),
            "longest_stall": spread(&|measures| Some(measures.silence.as_secs_f64())),
            "set_up": spread(&Measures::set_up_seconds),
            "time_to_reuse": spread(&Measures::used_again),
            "recovery": spread(&Measures::recovery),
            "reordered_bytes": spread(&|measures| measures.delivery.map(|delivery| count(delivery.most_held.get()))),
            "delay_median": spread(&|measures| measures.delivery?.median.map(|time| time.as_secs_f64())),
            "delay_p95": spread(&|measures| measures.delivery?.p95.map(|time| time.as_secs_f64())),
            "cpu_per_gigabyte": spread(&Measures::cpu_per_gigabyte),
            "message_median": spread(&|measures| latency(measures.messages, |figures| figures.median)),
            "message_p99": spread(&|measures| latency(measures.messages, |figures| figures.p99)),
            "message_p999": spread(&|measures| latency(measures.messages, |figures| figures.p999)),
            "cross": cross::summary(results, row),
            "failed_runs": counted().filter(|run| run.failure.is_some()).count(),
            "disturbed_runs": counted().filter(|run| run.is_disturbed()).count(),
        }))
    };
    rows(results).iter().filter_map(line).collect()
}

fn recovery(scenario: &Scenario, recovery: &Recovery) -> Value {
    let names = recovery.routes.iter().filter_map(|place| scenario.routes.get(*place));
    json!({
        "at": seconds(recovery.at),
        "fault": recovery.fault.name(),
        "routes": names.map(|route| &route.name).collect::<Vec<_>>(),
        "working": recovery.working,
        "saturated": recovery.is_filled,
        "observed": seconds(recovery.watched),
        "unchanged": seconds(recovery.stayed),
        "longest_stall": seconds(recovery.silence),
        "used": recovery.used.map(seconds),
        "restored": recovery.restored.map(seconds),
        "full": recovery.full.map(seconds),
    })
}

fn delivery(measures: &Measures) -> Value {
    measures.delivery.map_or(Value::Null, |delivery| {
        json!({
            "reordered_bytes": delivery.most_held.get(),
            "median": delivery.median.map(seconds),
            "p95": delivery.p95.map(seconds),
        })
    })
}

fn cpu(measures: &Measures) -> Value {
    measures.cpu.map_or(Value::Null, |cpu| {
        json!({
            "client": seconds(cpu.client),
            "server": seconds(cpu.server),
            "per_gigabyte": measures.cpu_per_gigabyte(),
        })
    })
}

fn messages(measures: &Measures) -> Value {
    measures.messages.map_or(Value::Null, |messages| {
        json!({
            "arrived": messages.arrived,
            "missing": messages.missing,
            "median": messages.median.map(seconds),
            "p99": messages.p99.map(seconds),
            "p999": messages.p999.map(seconds),
        })
    })
}

fn routes(scenario: &Scenario, measures: &Measures) -> Value {
    let routes = scenario.routes.iter().zip(&measures.routes);
    routes.map(|(route, bytes)| json!({ "name": route.name, "bytes": bytes.get() })).collect()
}

/// Adds the bytes over time.
fn with_course(mut line: Value, plan: &Plan, run: &Run) -> Value {
    let scenario = plan.cases.get(run.case).map(|case| &case.scenario);
    if let (Some(scenario), Some(outcome), Some(fields)) = (scenario, &run.course, line.as_object_mut()) {
        fields.insert("course".to_owned(), course(scenario, outcome));
    }
    line
}

fn course(scenario: &Scenario, outcome: &Outcome) -> Value {
    let routes = scenario.routes.iter().zip(&outcome.routes);
    json!({
        "bin": seconds(Arrivals::BIN * TOGETHER),
        "flows": outcome.flows.iter().map(|flow| {
            json!({ "receiver": describe::side(flow.receiver), "bytes": bins(&flow.arrivals) })
        }).collect::<Vec<_>>(),
        "cross": outcome.cross.iter().map(bins).collect::<Vec<_>>(),
        "routes": routes.map(|(route, totals)| {
            json!({ "name": route.name, "up": bins(&totals.up), "down": bins(&totals.down) })
        }).collect::<Vec<_>>(),
    })
}

/// Bytes in each tenth of a second.
fn bins(arrivals: &Arrivals) -> Vec<u64> {
    let together = usize::try_from(TOGETHER).unwrap_or(1);
    arrivals.bins().chunks(together).map(|bins| bins.iter().sum()).collect()
}

/// A time in seconds.
fn seconds(time: Duration) -> Value {
    time.as_secs_f64().into()
}

/// Number of bins of the measurement in one of the document.
const TOGETHER: u32 = 10;
