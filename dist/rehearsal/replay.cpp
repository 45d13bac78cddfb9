#include <algorithm>
#include <queue>
#include <tuple>

#include <hero/core/error.h>
#include <hero/dist/rehearsal.h>

namespace hero::dist {

namespace {

using Kind = TimelineEvent::Kind;

constexpr std::pair<int, int> kAll = {-1, -1};  // not a lane of messages: a group's collectives

// A call that ranks meet in: a collective of a group, or a message.
struct Meeting {
  Collective op = Collective::barrier;
  int group = -1;
  size_t expected = 0;                                           // ranks that ran and take part
  std::vector<std::pair<size_t, const TimelineEvent*>> arrived;  // rank's place, its beginning
  std::vector<std::pair<size_t, double>> waiting;                // rank's place, since when
  std::vector<std::pair<size_t, const TimelineEvent*>> held;     // begin after this one is complete
  bool known = false;                                            // when it is complete
  double complete = 0.0;
};

// A call that a rank has begun.
struct Begun {
  int meeting;
  const TimelineEvent* event;
};

// One rank's end of what its calls meet in: a group's collectives, or the messages of a lane.
struct Way {
  int group, peer;  // peer -1: collectives
  bool sends;
  size_t lane;
  size_t calls = 0;  // that the rank has begun there: its n-th one is the n-th meeting
};

// The meetings of one group's collectives, or of the messages from one rank to another, in order.
struct Lane {
  size_t expected;  // ranks that ran and take part
  std::vector<int> meetings;
};

struct Player {
  size_t next = 0;           // event
  std::vector<Begun> begun;  // by call of the rank, from the first recorded one
  std::vector<Way> ways;     // a handful
  int64_t first_call = -1;
  double free_inside = 0.0, free_outside = 0.0;  // when a port is free again
  double end = 0.0;
  bool ended = false;
};

// Something that happens at a time: a rank goes on, or its part of a call may move.
struct Moment {
  double time;
  size_t rank;                 // its place
  const TimelineEvent* begin;  // null: the rank goes on
  uint64_t number;             // of moments of one time and rank the earlier one comes first
  bool operator>(const Moment& other) const {
    return std::tie(time, rank, number) > std::tie(other.time, other.rank, other.number);
  }
};

class Play {
 public:
  Play(const Recording& recording, const Cluster& cluster, bool spans)
      : recording_(recording), cluster_(cluster), spans_(spans) {
    for (size_t i = 0; i < recording.ranks.size(); ++i) {
      places_[recording.ranks[i].rank] = i;
    }
    for (const GroupRecord& group : recording.groups) {
      played_.push_back(0);
      inside_.push_back(true);
      for (const int rank : group.ranks) {
        played_.back() += places_.count(rank);
        if (rank / cluster.per_host != group.ranks.front() / cluster.per_host) {
          inside_.back() = false;
        }
      }
    }
    result_.ranks.resize(recording.ranks.size());
    players_.resize(recording.ranks.size());
    for (size_t i = 0; i < players_.size(); ++i) at(0.0, i);
  }

  Rehearsal run() {
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
    moments_.push({time, rank, begin, number_++});
  }

  // Where a rank's calls of that kind meet others, found at its first one.
  Way& way(size_t rank, const TimelineEvent& begin) {
    const bool sends = begin.op == Collective::send,
               message = sends || begin.op == Collective::recv;
    const int peer = message ? begin.peer : -1;
    std::vector<Way>& ways = players_[rank].ways;
    for (Way& known : ways) {
      if (known.group == begin.group && known.peer == peer && known.sends == sends) return known;
    }
    const std::vector<int>& members = recording_.groups[static_cast<size_t>(begin.group)].ranks;
    const int me = recording_.ranks[rank].rank;
    const int other = message ? members[static_cast<size_t>(peer)] : me;
    const auto ends = message ? std::pair(sends ? me : other, sends ? other : me) : kAll;
    const auto [place, is_new] = lane_of_.try_emplace({begin.group, ends}, lanes_.size());
    if (is_new) {
      const size_t both = other == me ? 2 : 1 + places_.count(other);
      lanes_.push_back({message ? both : played_[static_cast<size_t>(begin.group)], {}});
    }
    return ways.emplace_back(Way{begin.group, peer, sends, place->second});
  }

  // The meeting of a call that a rank begins now.
  int meet(size_t rank, const TimelineEvent& begin) {
    Way& mine = way(rank, begin);
    Lane& lane = lanes_[mine.lane];
    const Collective op = begin.op == Collective::recv ? Collective::send : begin.op;
    if (mine.calls == lane.meetings.size()) {
      lane.meetings.push_back(static_cast<int>(meetings_.size()));
      Meeting& meeting = meetings_.emplace_back();
      meeting.op = op;
      meeting.group = begin.group;
      meeting.expected = lane.expected;
    }
    const int number = lane.meetings[mine.calls++];
    const Meeting& meeting = meetings_[static_cast<size_t>(number)];
    check(meeting.op == op, "replay: call ", mine.calls, " on '",
          recording_.groups[static_cast<size_t>(begin.group)].axis, "' is ", name(op), " of rank ",
          recording_.ranks[rank].rank, " and ", name(meeting.op), " of others");
    return number;
  }

  void go_on(size_t rank, double now) {
    Player& player = players_[rank];
    const std::vector<TimelineEvent>& events = recording_.ranks[rank].events;
    while (player.next < events.size()) {
      const TimelineEvent& event = events[player.next];
      if (event.kind == Kind::wait) {
        Meeting& meeting = meeting_of(rank, event.call);
        if (!meeting.known) {
          meeting.waiting.push_back({rank, now});
          return;
        }
        ++player.next;
        if (meeting.complete <= now) continue;
        add_wait(rank, meeting, now, event);
        at(meeting.complete, rank);
        return;
      }
      ++player.next;
      if (event.kind == Kind::compute) {
        compute(rank, event, now);
        at(now + event.seconds, rank);
        return;
      }
      begin(rank, event, now);
    }
    player.end = now;
    player.ended = true;
  }

  void compute(size_t rank, const TimelineEvent& event, double now) {
    ReplayRank& sums = result_.ranks[rank];
    sums.compute += event.seconds;
    sums.peak_compute += event.peak_seconds;
    sums.flops += event.flops;
    if (!spans_) return;
    sums.spans.push_back({.track = ReplaySpan::Track::compute,
                          .label = event.label,
                          .begin = now,
                          .end = now + event.seconds,
                          .bytes = event.live});
  }

  void begin(size_t rank, const TimelineEvent& event, double now) {
    Player& player = players_[rank];
    if (player.first_call < 0) player.first_call = event.call;
    player.begun.push_back({meet(rank, event), &event});
    if (event.after < 0) return arrive(rank, event, now);
    Meeting& before = meeting_of(rank, event.after);
    if (!before.known) {
      before.held.push_back({rank, &event});
    } else if (before.complete <= now) {
      arrive(rank, event, now);
    } else {
      at(before.complete, rank, &event);
    }
  }

  void arrive(size_t rank, const TimelineEvent& event, double now) {
    Meeting& meeting = meeting_of(rank, event.call);
    meeting.arrived.push_back({rank, &event});
    if (meeting.arrived.size() < meeting.expected) return;
    move(meeting, now);
    for (const auto& [held, call] : meeting.held) at(meeting.complete, held, call);
    for (const auto& [waiting, since] : meeting.waiting) {
      Player& player = players_[waiting];
      const TimelineEvent& wait = recording_.ranks[waiting].events[player.next++];
      add_wait(waiting, meeting, since, wait);
      at(meeting.complete, waiting);
    }
  }

  // All who ran are there: their bytes leave.
  void move(Meeting& meeting, double now) {
    const bool inside = inside_[static_cast<size_t>(meeting.group)] || one_host(meeting);
    const LinkSpec& link = inside ? cluster_.inside : cluster_.outside;
    const bool message = meeting.op == Collective::send;
    const size_t size = recording_.groups[static_cast<size_t>(meeting.group)].ranks.size();
    const double latencies = message ? 1.0 : static_cast<double>(size - 1);
    double last = now;
    for (const auto& [rank, event] : meeting.arrived) {
      ReplayRank& sums = result_.ranks[rank];
      (inside ? sums.sent_inside : sums.sent_outside) += event->bytes;
      if (event->bytes == 0) continue;
      double& port = inside ? players_[rank].free_inside : players_[rank].free_outside;
      const double from = std::max(now, port);
      port = from + static_cast<double>(event->bytes) / link.bytes_per_second;
      last = std::max(last, port);
      if (!spans_) continue;
      sums.spans.push_back(
          {.track = inside ? ReplaySpan::Track::inside : ReplaySpan::Track::outside,
           .op = event->op,
           .label = event->label,
           .begin = from,
           .end = port,
           .bytes = event->bytes});
    }
    meeting.complete = last + latencies * link.latency;
    meeting.known = true;
    if (spans_ && message) add_message(meeting, inside);
  }

  void add_message(const Meeting& meeting, bool inside) {
    const TimelineEvent& first = *meeting.arrived.front().second;
    const bool is_send = first.op == Collective::send;
    const auto& [rank, sent] = is_send ? meeting.arrived.front() : meeting.arrived.back();
    if (sent->op != Collective::send || sent->bytes == 0) return;
    const std::vector<int>& members = recording_.groups[static_cast<size_t>(sent->group)].ranks;
    result_.messages.push_back({.from = recording_.ranks[rank].rank,
                                .to = members[static_cast<size_t>(sent->peer)],
                                .label = sent->label,
                                .outside = !inside,
                                .begin = result_.ranks[rank].spans.back().begin,
                                .end = meeting.complete});
  }

  // Whether both ends of a message are on one host, however far their group goes.
  bool one_host(const Meeting& meeting) const {
    if (meeting.op != Collective::send) return false;
    const auto& [rank, event] = meeting.arrived.front();
    const GroupRecord& group = recording_.groups[static_cast<size_t>(meeting.group)];
    return recording_.ranks[rank].rank / cluster_.per_host ==
           group.ranks[static_cast<size_t>(event->peer)] / cluster_.per_host;
  }

  void add_wait(size_t rank, const Meeting& meeting, double since, const TimelineEvent& event) {
    ReplayRank& sums = result_.ranks[rank];
    const double seconds = meeting.complete - since;
    const TimelineEvent& call = *begun(rank, event.call).event;
    ReplayCall& waited = waits_[{call.label, call.op}];
    ++waited.waits;
    waited.seconds += seconds;
    (meeting.op == Collective::send ? sums.messages : sums.collectives) += seconds;
    if (!spans_ || seconds <= 0.0) return;
    sums.spans.push_back({.track = ReplaySpan::Track::wait,
                          .op = call.op,
                          .label = call.label,
                          .begin = since,
                          .end = meeting.complete});
  }

  const Begun& begun(size_t rank, int64_t call) const {
    const Player& player = players_[rank];
    const int64_t at = call - player.first_call;
    check(player.first_call >= 0 && at >= 0 && at < static_cast<int64_t>(player.begun.size()),
          "replay: rank ", recording_.ranks[rank].rank, " waits for call ", call,
          ", which it has not begun");
    return player.begun[static_cast<size_t>(at)];
  }

  Meeting& meeting_of(size_t rank, int64_t call) {
    return meetings_[static_cast<size_t>(begun(rank, call).meeting)];
  }

  // What stopped the ranks; a call that nobody waits for and not all have begun is an error too.
  void check_ended() const {
    std::string lines;
    const auto add = [&](size_t rank, const char* does, const Begun& call) {
      const Meeting& meeting = meetings_[static_cast<size_t>(call.meeting)];
      lines += (lines.empty() ? "rank " : "; rank ") + std::to_string(recording_.ranks[rank].rank) +
               does + name(call.event->op) + " on '" +
               recording_.groups[static_cast<size_t>(meeting.group)].axis + "', which " +
               std::to_string(meeting.arrived.size()) + " of " + std::to_string(meeting.expected) +
               " ranks have begun";
    };
    for (size_t i = 0; i < players_.size(); ++i) {
      if (players_[i].ended) continue;
      add(i, " waits for ", begun(i, recording_.ranks[i].events[players_[i].next].call));
    }
    check(lines.empty(), "replay: the ranks wait for each other: ", lines);
    for (size_t i = 0; i < players_.size(); ++i) {
      for (const Begun& call : players_[i].begun) {
        if (meetings_[static_cast<size_t>(call.meeting)].known) continue;
        add(i, " has begun ", call);
        break;
      }
    }
    check(lines.empty(), "replay: calls have not met: ", lines);
  }

  Rehearsal finish() {
    result_.world_size = recording_.world_size;
    result_.labels = recording_.labels;
    for (const Player& player : players_) result_.seconds = std::max(result_.seconds, player.end);
    double bubble = 0.0, exposed = 0.0, peak_compute = 0.0, flops = 0.0;
    for (size_t i = 0; i < players_.size(); ++i) {
      const RankTimeline& timeline = recording_.ranks[i];
      ReplayRank& rank = result_.ranks[i];
      rank.rank = timeline.rank;
      rank.after_end = result_.seconds - players_[i].end;
      rank.peak = timeline.peak;
      rank.peak_total = timeline.peak_total;
      bubble += rank.messages + rank.after_end;
      exposed += rank.collectives;
      peak_compute += rank.peak_compute;
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
    result_.mfu = peak_compute / all;
    const double count = static_cast<double>(players_.size());
    for (auto& [call, waited] : waits_) {
      std::tie(waited.label, waited.op) = call;
      waited.seconds /= count;
      if (waited.seconds > 0.0) result_.waits.push_back(waited);
    }
    std::stable_sort(result_.waits.begin(), result_.waits.end(),
                     [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
    result_.flops = flops * (recording_.world_size / ranks);
    return std::move(result_);
  }

  void add_axis(const RankTimeline& timeline, const std::string& axis) {
    int64_t& most = result_.bytes_by_axis[axis];
    most = std::max(most, timeline.traffic.bytes_of_axis(axis));
  }

  const Recording& recording_;
  const Cluster& cluster_;
  const bool spans_;
  std::map<int, size_t> places_;  // of ranks that ran
  std::vector<size_t> played_;    // of each group, how many ran
  std::vector<bool> inside_;      // of each group, whether it lies within a host
  std::vector<Player> players_;
  std::vector<Meeting> meetings_;
  std::vector<Lane> lanes_;
  std::map<std::pair<int, std::pair<int, int>>, size_t> lane_of_;  // by group, sender and receiver
  std::map<std::pair<int32_t, Collective>, ReplayCall> waits_;
  uint64_t number_ = 0;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;
  Rehearsal result_;
};

}  // namespace

Rehearsal replay(const Recording& recording, const Cluster& cluster, bool spans) {
  check(!recording.ranks.empty(), "replay: no rank has run");
  check(cluster.per_host > 0 && cluster.inside.bytes_per_second > 0 &&
            cluster.outside.bytes_per_second > 0,
        "replay: a cluster has at least one rank a host and links of more than 0 bytes a second: ",
        cluster.per_host, ", ", cluster.inside.bytes_per_second, ", ",
        cluster.outside.bytes_per_second);
  return Play(recording, cluster, spans).run();
}

Rehearsal rehearse(int size, const RankProgram& program, const Cluster& cluster,
                   const RehearsalOptions& options) {
  return replay(record_ranks(size, program, cluster, options.ranks), cluster, options.spans);
}

}  // namespace hero::dist
