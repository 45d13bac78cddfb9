#include <algorithm>
#include <queue>
#include <tuple>

#include <hero/core/error.h>
#include <hero/dist/simulation.h>
#include <hero/dist/simulation/rendezvous.h>

namespace hero::dist {

namespace {

// A call that a rank has begun.
struct Begun {
  size_t rendezvous;
  const TimelineEvent* event;
};

struct Player {
  size_t next = 0;           // event
  std::vector<Begun> begun;  // by call of the rank, from the first recorded one
  int64_t first_call = -1;
  double free_inside = 0.0, free_outside = 0.0;  // when a port is free again
  double free_up = 0.0, free_down = 0.0, free_disk = 0.0;
  double end = 0.0;
  bool ended = false;
};

// Something that happens at a time: a rank goes on, or its part of a call may move.
struct Moment {
  double time;
  int who;                     // of moments of one time that of the first rank of the world comes
  size_t rank;                 // its place
  const TimelineEvent* begin;  // null: the rank goes on
  uint64_t number;             // of one rank the earlier one comes first
  bool operator>(const Moment& other) const {
    return std::tie(time, who, number) > std::tie(other.time, other.who, other.number);
  }
};

class Play {
 public:
  Play(const Recording& recording, const Cluster& cluster, bool spans)
      : recording_(recording), cluster_(cluster), spans_(spans), all_(recording) {
    for (const GroupRecord& group : recording.groups) {
      const int host = group.ranks.front() / cluster.per_host;
      inside_.push_back(std::all_of(group.ranks.begin(), group.ranks.end(),
                                    [&](int rank) { return rank / cluster.per_host == host; }));
    }
    result_.ranks.resize(recording.ranks.size());
    players_.resize(recording.ranks.size());
    for (size_t i = 0; i < players_.size(); ++i) at(0.0, i);
  }

  Simulation run() {
    while (!moments_.empty()) {
      const Moment moment = moments_.top();
      moments_.pop();
      if (moment.begin) {
        arrive(moment.rank, *moment.begin, moment.time);
      } else {
        go_on(moment.rank, moment.time);
      }
    }
    check_ended();
    return finish();
  }

 private:
  void at(double time, size_t rank, const TimelineEvent* begin = nullptr) {
    moments_.push({time, recording_.ranks[rank].rank, rank, begin, number_++});
  }

  void go_on(size_t rank, double now) {
    Player& player = players_[rank];
    const std::vector<TimelineEvent>& events = recording_.ranks[rank].events;
    while (player.next < events.size()) {
      const TimelineEvent& event = events[player.next];
      if (event.kind == TimelineEvent::Kind::wait) {
        Rendezvous& rendezvous = rendezvous_of(rank, event.call);
        if (!rendezvous.known) {
          rendezvous.waiting.push_back({rank, now});
          return;
        }
        ++player.next;
        if (rendezvous.complete <= now) continue;
        resume(rank, rendezvous, now, event);
        return;
      }
      ++player.next;
      if (event.kind == TimelineEvent::Kind::compute) {
        compute(rank, event, now);
        at(now + event.seconds, rank);
        return;
      }
      event.kind == TimelineEvent::Kind::move ? transfer(rank, event, now)
                                              : begin(rank, event, now);
    }
    player.end = now;
    player.ended = true;
  }

  void compute(size_t rank, const TimelineEvent& event, double now) {
    ReplayRank& sums = result_.ranks[rank];
    sums.compute += event.seconds;
    sums.peak_compute += event.peak_seconds;
    sums.peak_recompute += event.recomputed_seconds;
    sums.flops += event.flops;
    if (!spans_) return;
    sums.spans.push_back({.track = ReplaySpan::Track::compute,
                          .label = event.label,
                          .begin = now,
                          .end = now + event.seconds,
                          .bytes = event.live,
                          .on_host = event.live_on_host});
  }

  // A device has a link to its host, and a part of the host's disk.
  void transfer(size_t rank, const TimelineEvent& event, double now) {
    Player& player = players_[rank];
    if (player.first_call < 0) player.first_call = event.call;
    const bool up = event.transfer == Transfer::to_device,
               down = event.transfer == Transfer::to_host;
    const bool disk = !up && !down;
    double& way = up ? player.free_up : down ? player.free_down : player.free_disk;
    const double rate = disk ? cluster_.disk_bytes_per_second / cluster_.per_host
                             : cluster_.host_link.bytes_per_second;
    const double from = std::max(now, way);
    way = from + static_cast<double>(event.bytes) / rate;
    const double complete = way + (disk ? 0.0 : cluster_.host_link.latency);
    player.begun.push_back({all_.alone(complete), &event});
    result_.ranks[rank].moved[static_cast<size_t>(event.transfer)] += event.bytes;
    if (!spans_) return;
    using Track = ReplaySpan::Track;
    result_.ranks[rank].spans.push_back({.track = up     ? Track::to_device
                                                  : down ? Track::to_host
                                                         : Track::disk,
                                         .transfer = event.transfer,
                                         .label = event.label,
                                         .begin = from,
                                         .end = way,
                                         .bytes = event.bytes});
  }

  void begin(size_t rank, const TimelineEvent& event, double now) {
    Player& player = players_[rank];
    if (player.first_call < 0) player.first_call = event.call;
    player.begun.push_back({all_.meet(rank, event), &event});
    if (event.after < 0) return arrive(rank, event, now);
    Rendezvous& before = rendezvous_of(rank, event.after);
    if (!before.known) {
      before.held.push_back({rank, &event});
    } else if (before.complete <= now) {
      arrive(rank, event, now);
    } else {
      at(before.complete, rank, &event);
    }
  }

  void arrive(size_t rank, const TimelineEvent& event, double now) {
    Rendezvous& rendezvous = rendezvous_of(rank, event.call);
    rendezvous.arrived.push_back({rank, &event});
    if (rendezvous.arrived.size() < rendezvous.expected) return;
    move(rendezvous, now);
    for (const auto& [held, call] : rendezvous.held) at(rendezvous.complete, held, call);
    for (const auto& [waiting, since] : rendezvous.waiting) {
      Player& player = players_[waiting];
      const TimelineEvent& wait = recording_.ranks[waiting].events[player.next++];
      resume(waiting, rendezvous, since, wait);
    }
  }

  // The rank that has waited goes on when the call is complete. A thread is woken first; one that
  // waits for less than that takes does not sleep.
  void resume(size_t rank, const Rendezvous& rendezvous, double since, const TimelineEvent& wait) {
    double until = rendezvous.complete;
    if (!alone(rank, wait)) until += std::min(cluster_.wake_seconds, until - since);
    add_wait(rank, rendezvous, since, until, wait);
    at(until, rank);
  }

  // Whether what the rank waits for is a transfer of its own.
  bool alone(size_t rank, const TimelineEvent& wait) const {
    return begun(rank, wait.call).event->kind == TimelineEvent::Kind::move;
  }

  // All who ran are there: their bytes leave.
  void move(Rendezvous& rendezvous, double now) {
    const bool inside = inside_[static_cast<size_t>(rendezvous.group)] || one_host(rendezvous);
    double last = now;
    for (const auto& [rank, event] : rendezvous.arrived) {
      int64_t outside = inside ? 0 : event->bytes;
      if (event->ranks_of_host > 0) outside = event->bytes_across;
      last = std::max({last, leave(rank, *event, true, event->bytes - outside, now),
                       leave(rank, *event, false, outside, now)});
    }
    rendezvous.complete = last + latencies(rendezvous, inside);
    rendezvous.known = true;
    if (spans_ && rendezvous.op == Collective::send) add_message(rendezvous, inside);
  }

  // Some bytes of a call leave through one of their rank's ports. Returns when they have left.
  double leave(size_t rank, const TimelineEvent& call, bool inside, int64_t bytes, double now) {
    ReplayRank& sums = result_.ranks[rank];
    (inside ? sums.sent_inside : sums.sent_outside) += bytes;
    if (bytes == 0) return now;
    const LinkSpec& link = inside ? cluster_.inside : cluster_.outside;
    double& port = inside ? players_[rank].free_inside : players_[rank].free_outside;
    const double from = std::max(now, port);
    port = from + static_cast<double>(bytes) / link.bytes_per_second;
    if (!spans_) return port;
    sums.spans.push_back({.track = inside ? ReplaySpan::Track::inside : ReplaySpan::Track::outside,
                          .op = call.op,
                          .label = call.label,
                          .begin = from,
                          .end = port,
                          .bytes = bytes});
    return port;
  }

  // The seconds from when a call's bytes have left until it is complete.
  double latencies(const Rendezvous& rendezvous, bool inside) const {
    const double one = inside ? cluster_.inside.latency : cluster_.outside.latency;
    if (rendezvous.op == Collective::send) return one;
    const size_t size = recording_.groups[static_cast<size_t>(rendezvous.group)].ranks.size();
    const auto h = static_cast<size_t>(rendezvous.arrived.front().second->ranks_of_host);
    if (h == 0) return static_cast<double>(size - 1) * one;
    const size_t hosts = size / h;
    return static_cast<double>(h - 1) * cluster_.inside.latency +
           static_cast<double>(hosts - 1) * cluster_.outside.latency;
  }

  void add_message(const Rendezvous& rendezvous, bool inside) {
    const TimelineEvent& first = *rendezvous.arrived.front().second;
    const bool is_send = first.op == Collective::send;
    const auto& [rank, sent] = is_send ? rendezvous.arrived.front() : rendezvous.arrived.back();
    if (sent->op != Collective::send || sent->bytes == 0) return;
    const std::vector<int>& members = recording_.groups[static_cast<size_t>(sent->group)].ranks;
    result_.messages.push_back({.from = recording_.ranks[rank].rank,
                                .to = members[static_cast<size_t>(sent->peer)],
                                .label = sent->label,
                                .outside = !inside,
                                .begin = result_.ranks[rank].spans.back().begin,
                                .end = rendezvous.complete});
  }

  // Whether both ends of a message are on one host, however far their group goes.
  bool one_host(const Rendezvous& rendezvous) const {
    if (rendezvous.op != Collective::send) return false;
    const auto& [rank, event] = rendezvous.arrived.front();
    const GroupRecord& group = recording_.groups[static_cast<size_t>(rendezvous.group)];
    return recording_.ranks[rank].rank / cluster_.per_host ==
           group.ranks[static_cast<size_t>(event->peer)] / cluster_.per_host;
  }

  void add_wait(size_t rank, const Rendezvous& rendezvous, double since, double until,
                const TimelineEvent& event) {
    ReplayRank& sums = result_.ranks[rank];
    const double seconds = until - since;
    const TimelineEvent& call = *begun(rank, event.call).event;
    if (call.kind == TimelineEvent::Kind::move) return add_wait(rank, call, since, until);
    ReplayCall& waited = waits_[{call.label, call.op}];
    ++waited.waits;
    waited.seconds += seconds;
    (rendezvous.op == Collective::send ? sums.messages : sums.collectives) += seconds;
    if (!spans_ || seconds <= 0.0) return;
    sums.spans.push_back({.track = ReplaySpan::Track::wait,
                          .op = call.op,
                          .label = call.label,
                          .begin = since,
                          .end = until});
  }

  void add_wait(size_t rank, const TimelineEvent& transfer, double since, double until) {
    result_.ranks[rank].transfers += until - since;
    if (!spans_ || until <= since) return;
    result_.ranks[rank].spans.push_back({.track = ReplaySpan::Track::wait,
                                         .transfer = transfer.transfer,
                                         .label = transfer.label,
                                         .begin = since,
                                         .end = until});
  }

  const Begun& begun(size_t rank, int64_t call) const {
    const Player& player = players_[rank];
    const int64_t at = call - player.first_call;
    check(player.first_call >= 0 && at >= 0 && at < static_cast<int64_t>(player.begun.size()),
          "replay: rank ", recording_.ranks[rank].rank, " waits for call ", call,
          ", which it has not begun");
    return player.begun[static_cast<size_t>(at)];
  }

  Rendezvous& rendezvous_of(size_t rank, int64_t call) {
    return all_[begun(rank, call).rendezvous];
  }

  // What stopped the ranks; a call that nobody waits for and not all have begun is an error too.
  void check_ended() const {
    std::string lines;
    const auto add = [&](size_t rank, const char* does, const Begun& call) {
      const Rendezvous& rendezvous = all_[call.rendezvous];
      lines += (lines.empty() ? "rank " : "; rank ") + std::to_string(recording_.ranks[rank].rank) +
               does + name(call.event->op) + " on '" +
               recording_.groups[static_cast<size_t>(rendezvous.group)].axis + "', which " +
               std::to_string(rendezvous.arrived.size()) + " of " +
               std::to_string(rendezvous.expected) + " ranks have begun";
    };
    for (size_t i = 0; i < players_.size(); ++i) {
      if (players_[i].ended) continue;
      add(i, " waits for ", begun(i, recording_.ranks[i].events[players_[i].next].call));
    }
    check(lines.empty(), "replay: the ranks wait for each other: ", lines);
    for (size_t i = 0; i < players_.size(); ++i) {
      for (const Begun& call : players_[i].begun) {
        if (all_[call.rendezvous].known) continue;
        add(i, " has begun ", call);
        break;
      }
    }
    check(lines.empty(), "replay: calls have not met: ", lines);
  }

  Simulation finish() {
    result_.world_size = recording_.world_size;
    result_.labels = recording_.labels;
    for (const Player& player : players_) result_.seconds = std::max(result_.seconds, player.end);
    double bubble = 0.0, exposed = 0.0, transfers = 0.0, flops = 0.0;
    double of_model = 0.0, of_hardware = 0.0;  // seconds at the peak
    for (size_t i = 0; i < players_.size(); ++i) {
      const RankTimeline& timeline = recording_.ranks[i];
      ReplayRank& rank = result_.ranks[i];
      rank.rank = timeline.rank;
      rank.after_end = result_.seconds - players_[i].end;
      rank.peak = timeline.peak;
      rank.peak_total = timeline.peak_total;
      rank.host_peak = timeline.host_peak;
      rank.host_peak_total = timeline.host_peak_total;
      rank.disk_peak = timeline.disk_peak;
      bubble += rank.messages + rank.after_end;
      exposed += rank.collectives;
      transfers += rank.transfers;
      of_model += rank.peak_compute - rank.peak_recompute;
      of_hardware += rank.peak_compute;
      flops += static_cast<double>(rank.flops);
      if (rank.peak_total > result_.peak_bytes) {
        result_.peak_bytes = rank.peak_total;
        result_.peak_rank = rank.rank;
      }
      for (const Traffic::Row& row : timeline.traffic.rows()) add_axis(timeline, row.axis);
    }
    const double ranks = static_cast<double>(players_.size());
    const double all = std::max(result_.seconds, 1e-300) * ranks;
    result_.bubble = bubble / all;
    result_.exposed = exposed / all;
    result_.transfers = transfers / all;
    result_.mfu = of_model / all;
    result_.hfu = of_hardware / all;
    add_waits(ranks);
    result_.flops = flops * (recording_.world_size / ranks);
    return std::move(result_);
  }

  void add_waits(double ranks) {
    for (auto& [call, waited] : waits_) {
      std::tie(waited.label, waited.op) = call;
      waited.seconds /= ranks;
      if (waited.seconds > 0.0) result_.waits.push_back(waited);
    }
    std::stable_sort(result_.waits.begin(), result_.waits.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  }

  void add_axis(const RankTimeline& timeline, const std::string& axis) {
    int64_t& most = result_.bytes_by_axis[axis];
    most = std::max(most, timeline.traffic.bytes_of_axis(axis));
  }

  const Recording& recording_;
  const Cluster& cluster_;
  const bool spans_;
  std::vector<bool> inside_;  // of each group, whether it lies within a host
  std::vector<Player> players_;
  AllRendezvous all_;
  std::map<std::pair<int32_t, Collective>, ReplayCall> waits_;
  uint64_t number_ = 0;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;
  Simulation result_;
};

}  // namespace

Simulation replay(const Recording& recording, const Cluster& cluster, bool spans) {
  check(!recording.ranks.empty(), "replay: no rank has run");
  check(cluster.per_host > 0 && cluster.inside.bytes_per_second > 0 &&
            cluster.outside.bytes_per_second > 0,
        "replay: a cluster has at least one rank per host and links of more than 0 bytes per "
        "second: ",
        cluster.per_host, ", ", cluster.inside.bytes_per_second, ", ",
        cluster.outside.bytes_per_second);
  check(recording.per_host == cluster.per_host, "replay: recorded for ", recording.per_host,
        " ranks per host, but the cluster has ", cluster.per_host,
        "; record the program for this cluster");
  check(cluster.host_bytes_per_second > 0 && cluster.host_link.bytes_per_second > 0 &&
            cluster.disk_bytes_per_second > 0,
        "replay: the host's memory, its link and its disk move more than 0 bytes per second: ",
        cluster.host_bytes_per_second, ", ", cluster.host_link.bytes_per_second, ", ",
        cluster.disk_bytes_per_second);
  return Play(recording, cluster, spans).run();
}

Simulation simulate(int size, const RankProgram& program, const Cluster& cluster,
                    const SimulationOptions& options) {
  return replay(record_ranks(size, program, cluster, options.ranks), cluster, options.spans);
}

}  // namespace hero::dist
