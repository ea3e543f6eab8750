// Parallel loops at run time: chunks of the iteration space on the pool's threads, and who wins when some fail.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cpu/context.h"
#include "cpu/memory.h"
#include "cpu/privatise.h"
#include "runtime/poll.h"
#include "runtime/pool.h"
#include "support/check.h"

namespace appy::cpu {

using runtime::Status;

namespace {

/// Below this a loop is not worth waking anybody: 20 us in units of ParallelLoop::cost.
constexpr int64_t kSmall = 20'000 * 16;
/// The same for each thread where the loop before was worth it, and what is enough for any number: to fetch from the
/// others' caches what they have stored there takes longer than to tell them. In Gram-Schmidt of 220 x 180 to have each
/// column where its elements are read and written saves half of the time and more.
constexpr int64_t kSmallWhereSpread = kSmall / 32;
constexpr int64_t kEnoughWhereSpread = kSmall / 4;
/// Chunks of each worker, of which others take the last ones: of loops that are dealt out, and of shares of which a
/// part is estimated at 50 ms. That is some 5 ms or more: data in another's caches count for less than a neighbour of a
/// core.
constexpr int64_t kParts = 8;
constexpr double kLongPart = 50e6 * 16;
/// More chunks in a worker's lot have no place in half a word.
constexpr int64_t kMostOfLot = int64_t{1} << 30;
/// Pieces of a chunk whose worker has to be woken first, so that the caller can do what that one has not begun.
constexpr int64_t kPieces = 4;
/// More rows of partial results would only lengthen the combining loop.
constexpr int64_t kMaxRows = 256;

/// How many chunks each worker has.
int64_t parts_of_share(const ParallelLoop& loop, int64_t threads) {
  if (threads == 1 || loop.fixed) return 1;
  if (loop.dealing != static_cast<int64_t>(Dealing::shares)) return kParts;
  const double work = static_cast<double>(loop.trips) * static_cast<double>(loop.cost);
  return static_cast<int64_t>(std::clamp<double>(work / kLongPart / static_cast<double>(threads), 1, kParts));
}

}  // namespace

/// How a loop is divided.
struct Division {
  int threads = 1;
  int64_t chunks = 1;
  int64_t size = 1;  // trips of a chunk
};

/// What workers read comes first, in few lines of the cache. Each one that the caller has written again they have to
/// fetch, so that it writes only what is not there yet: a loop that runs again has the team that it had, and words of
/// its closure that have changed are in the note. The rest is the caller's, or for few loops.
struct alignas(64) Team : runtime::Job {
  BodyEntry body = nullptr;
  Closure* closure = nullptr;  // `words` where they have room
  int64_t trips = 0;
  Division division;
  std::atomic<int64_t> first_failed{INT64_MAX};
  volatile int stop = 0;  // what workers poll
  std::atomic<bool> interrupted{false};
  bool dealt = false;          // `lots` say who has which chunks; otherwise each worker has its own
  bool in_pieces = false;      // `begun` says who has which pieces of a chunk; otherwise chunks are whole
  ir::Word* copies = nullptr;  // of the atomics' targets, private_size words a worker; null: none
  Team* before = nullptr;      // of the loop that was pending
  std::array<Closure, 16> words{};

  alignas(64) runtime::Note noted{};  // of `words`
  std::vector<Closure> more_words;
  ParallelLoop* loop = nullptr;
  Context* caller = nullptr;
  /// The chunks of a worker: a stretch of them, or where iterations may differ in length every `threads`-th. It begins
  /// with the first one; who has none left takes the last one of another, far from where that one is.
  struct alignas(64) Lot {
    int64_t count = 0;
    std::atomic<uint64_t> taken{0};  // from its beginning, and in the upper half from its end; more may have asked

    bool has_some() const { return left(taken.load(std::memory_order_relaxed)) > 0; }
    /// Its number in the lot; -1: there is none left.
    int64_t take(bool last) {
      if (!has_some()) return -1;
      const uint64_t before = taken.fetch_add(last ? uint64_t{1} << 32 : 1, std::memory_order_relaxed);
      if (left(before) <= 0) return -1;
      return last ? count - 1 - static_cast<int64_t>(before >> 32) : static_cast<int64_t>(before & UINT32_MAX);
    }
    int64_t left(uint64_t word) const { return count - static_cast<int64_t>((word & UINT32_MAX) + (word >> 32)); }
  };
  std::vector<Lot> lots;  // of each worker
  int64_t stretch = 0;    // chunks of a worker; 0: every `threads`-th
  struct alignas(64) Begun {
    std::atomic<int64_t> pieces{0};
  };
  std::vector<Begun> begun;  // of each chunk
  int64_t piece = 0;         // trips of one
  size_t private_size = 0;
  std::mutex mutex;        // guards the targets of private copies and the four below
  bool cut_short = false;  // an interrupt kept somebody from something of the loop, or is this loop's to tell
  runtime::Failure failure;
  Status status = Status::done;
  bool no_memory = false;

  Team() {
    run = run_share;
    note = &noted;
  }

  /// Makes the team one for this loop, whose closure is complete.
  void give(ParallelLoop& l, const Division& how, Context& context, Team* pending) {
    if (stop) {
      first_failed = INT64_MAX;
      stop = 0;
      interrupted = cut_short = no_memory = false;
      status = Status::done;
    }
    private_size = 0;
    keep(wait, l.polls ? wait_for_others : nullptr);
    caller = &context;
    loop = &l;
    keep(before, pending);
    keep(body, l.body);
    keep(trips, l.trips);
    keep(division.threads, how.threads);
    keep(division.chunks, how.chunks);
    keep(division.size, how.size);
    keep(in_pieces, false);
    // Where each worker has one chunk, it is the same one each time, of what its caches have from the last time.
    keep(dealt, !l.fixed && how.chunks > how.threads);
    if (dealt) deal(l.dealing != static_cast<int64_t>(Dealing::in_turn));
    keep(waking, how.chunks == how.threads && l.row_words == 0 && l.targets == 0 ? &Team::deal_in_pieces : nullptr);
    give_words(l);
  }

  void give_words(const ParallelLoop& l) {
    noted.clear();
    const auto count = static_cast<size_t>(l.closure_words);
    if (count > words.size()) {
      // The loop's own may be for its next run before this one ends.
      if (l.may_pend) more_words.assign(l.closure, l.closure + count);
      return keep(closure, l.may_pend ? more_words.data() : l.closure);
    }
    keep(closure, words.data());
    // One by one: they are still on their way to the cache, from where wider loads would have to take them.
    const volatile Closure* from = l.closure;
    for (size_t i = 0; i < count; ++i) {
      const Closure word = from[i];
      if (word != words[i] && !noted.add(i, word)) return write_words(l);
    }
  }
  void write_words(const ParallelLoop& l) {
    noted.clear();
    const volatile Closure* from = l.closure;
    for (size_t i = 0; i < static_cast<size_t>(l.closure_words); ++i) words[i] = from[i];
  }

  /// What is not there yet is written, and no line of the cache for what is.
  template <class T>
  static void keep(T& there, std::type_identity_t<T> value) {
    if (there != value) there = value;
  }

  void deal(bool in_stretches) {
    const auto [threads, chunks, size] = division;
    if (lots.size() != static_cast<size_t>(threads)) lots = std::vector<Lot>(static_cast<size_t>(threads));
    stretch = in_stretches ? (chunks + threads - 1) / threads : 0;
    for (int64_t worker = 0; Lot & lot : lots) {
      lot.count = in_stretches ? std::clamp<int64_t>(chunks - worker * stretch, 0, stretch)
                               : (chunks - worker + threads - 1) / threads;
      lot.taken.store(0, std::memory_order_relaxed);
      ++worker;
    }
  }

  /// A chunk of the worker's lot, for itself or for another one; -1: there is none left.
  int64_t take(int worker, bool itself) {
    const int64_t n = lots[static_cast<size_t>(worker)].take(!itself);
    if (n < 0) return -1;
    return stretch == 0 ? worker + n * division.threads : worker * stretch + n;
  }

  void run_chunk(Context& context, BodyEntry entry, Closure* own, int64_t chunk) {
    const int64_t begin = chunk * division.size, end = chunk + 1 == division.chunks ? trips : begin + division.size;
    if (!in_pieces) return run_part(context, entry, own, {begin, end, chunk});
    std::atomic<int64_t>& pieces = begun[static_cast<size_t>(chunk)].pieces;
    for (int64_t n; (n = pieces.fetch_add(1, std::memory_order_relaxed)) < kPieces;) {
      const int64_t from = begin + n * piece;
      if (from < end) run_part(context, entry, own, {from, std::min(from + piece, end), chunk * kPieces + n});
    }
  }

  /// A chunk, or a piece of one; their numbers follow the order of iterations.
  struct Part {
    int64_t begin, end, number;
  };
  void run_part(Context& context, BodyEntry entry, Closure* own, Part part) {
    const int64_t chunk = part.number;
    if (chunk > first_failed.load(std::memory_order_relaxed)) return;
    context.chunk = chunk;
    const Status result = interrupted.load(std::memory_order_relaxed)
                              ? Status::interrupted
                              : static_cast<Status>(entry(&context, own, part.begin, part.end, chunk));
    if (result == Status::done) return;
    std::lock_guard lock(mutex);
    if (result == Status::interrupted) {
      interrupted = cut_short = true;
      no_memory |= context.no_memory;
    } else if (chunk < first_failed.load(std::memory_order_relaxed)) {
      first_failed = chunk;
      failure = context.failure;
      status = result;
    }
    stop = 1;
  }

  void work(Context& context, int share, int worker, const runtime::Note& note) {
    const auto [threads, chunks, size] = division;
    Closure* own = closure;
    BodyEntry entry = body;
    decltype(words) changed;
    if (note.count > 0) {
      changed = words;
      own = changed.data();
      for (size_t i = 0; i < note.count; ++i) changed[note.where[i]] = note.words[i];
    }
    if (copies) {
      own = make_private(*loop, copies + private_size * static_cast<size_t>(worker));
      entry = loop->alone;
    }
    if (dealt) {
      for (int n = 0; n < threads; ++n) {
        const int of = (share + n) % threads;
        for (int64_t chunk; (chunk = take(of, n == 0)) >= 0;) run_chunk(context, entry, own, chunk);
      }
    } else {
      for (int64_t chunk = share; chunk < chunks; chunk += threads) run_chunk(context, entry, own, chunk);
      if (share == 0 && in_pieces) {
        // What was woken last has the most left.
        for (int64_t chunk = chunks; --chunk > 0;) run_chunk(context, entry, own, chunk);
      }
    }
    if (copies) {
      // After a failure as well: what earlier iterations updated counts.
      std::lock_guard lock(mutex);
      merge_private(*loop, own);
    }
  }

  static void run_share(Job* job, int share, int worker, const runtime::Note& note) {
    Team& team = *static_cast<Team*>(job);
    if (team.before && team.before->stop) return;
    if (team.dealt && std::ranges::none_of(team.lots, &Lot::has_some)) return;
    Context context;
    context.flag = worker == 0 ? team.caller->flag : &team.stop;
    context.team = &team;
    Memory memory(worker == 0 ? kMostKept : kMostKeptByWorker);
    context.memory = &memory;
    team.work(context, share, worker, note);
  }

  static void deal_in_pieces(Job* job) {
    Team& team = *static_cast<Team*>(job);
    const int64_t align = std::max<int64_t>(1, team.loop->align);
    team.piece = ((team.division.size + kPieces - 1) / kPieces + align - 1) / align * align;
    team.begun = std::vector<Begun>(static_cast<size_t>(team.division.chunks));
    team.in_pieces = true;
  }

  static void wait_for_others(Job* job) {
    Team& team = *static_cast<Team*>(job);
    if (*team.caller->flag == 0 || team.interrupted.load(std::memory_order_relaxed)) return;
    if (runtime::poll() == 0) return;
    team.interrupt();
    // Workers may still be at that one. If they get through, it is this one that was interrupted.
    if (team.before && team.before->loop->polls) team.before->interrupt();
    std::lock_guard lock(team.mutex);
    team.cut_short = true;
  }

  void interrupt() {
    interrupted = true;
    stop = 1;
  }
};

/// The teams of a region's parallel loops. While one is made, who begins with the loop before may look at what became
/// of the one before that.
struct Teams {
  std::array<Team, 8> teams;
  size_t last = 0, last_but_one = 1, turn = 1;
  Team* pending = nullptr;
  std::vector<ir::Word> rows, copies;

  /// The one that had the loop, or the next one in turn.
  Team& next(const ParallelLoop& loop) {
    const auto free = [&](size_t i) { return i != last && i != last_but_one; };
    size_t found = 0;
    while (found < teams.size() && !(teams[found].loop == &loop && free(found))) ++found;
    if (found == teams.size()) {
      do turn = (turn + 1) % teams.size();
      while (!free(turn));
      found = turn;
    }
    last_but_one = std::exchange(last, found);
    return teams[found];
  }
};

namespace {

/// One for the next region of the thread. A poll may run a handler that runs another one meanwhile.
thread_local std::unique_ptr<Teams> kept_teams;

Teams& teams_of(Context& context) {
  if (!context.teams) context.teams = kept_teams ? kept_teams.release() : new Teams;
  return *context.teams;
}

Division divide(const ParallelLoop& loop, Context& context) {
  int64_t threads = context.threads;
  if (loop.threads > 0) threads = std::min(threads, loop.threads);
  threads = std::min<int64_t>({threads, loop.trips, runtime::default_threads()});
  const int64_t least = context.spread ? std::min(kSmallWhereSpread * threads, kEnoughWhereSpread) : kSmall;
  if (loop.trips < least && loop.trips * std::max<int64_t>(1, loop.cost) < least) threads = 1;
  context.spread = threads > 1;
  threads = std::max<int64_t>(1, threads);
  Division how;
  how.threads = static_cast<int>(threads);
  if (loop.chunk > 0 && threads > 1) {
    how.size = std::max(loop.chunk, loop.trips / threads / kMostOfLot);
  } else {
    const int64_t parts = threads * parts_of_share(loop, threads);
    how.size = std::max<int64_t>(1, (loop.trips + parts - 1) / parts);
    if (loop.align > 1 && how.size > loop.align) how.size = (how.size + loop.align - 1) / loop.align * loop.align;
  }
  if (loop.row_words > 0) how.size = std::max(how.size, (loop.trips + kMaxRows - 1) / kMaxRows);
  how.chunks = (loop.trips + how.size - 1) / how.size;
  return how;
}

int64_t result_of(const Team& team, Context& context) {
  if (!team.stop) return 0;
  context.no_memory |= team.no_memory;
  if (team.cut_short) return static_cast<int64_t>(Status::interrupted);
  if (team.status != Status::done) context.failure = team.failure;
  return static_cast<int64_t>(team.status);
}

int64_t result_of_pending(const Team& team, Context& context) {
  const int64_t status = result_of(team, context);
  if (status != static_cast<int64_t>(Status::interrupted)) return status;
  context.failure.has_state = context.told;
  return kInterruptedBefore;
}

}  // namespace

void give_back(Teams* teams) {
  APPY_CHECK(!teams->pending, "a region ends before a parallel loop of its own");
  kept_teams.reset(teams);
}

int64_t finish_parallel(Context* context) {
  if (!context->teams || !context->teams->pending) return 0;
  runtime::finish_job();
  return result_of_pending(*std::exchange(context->teams->pending, nullptr), *context);
}

int64_t poll_slow(Context* context) {
  Team* team = context->team;
  if (!team || context->flag != &team->stop) {
    if (const int64_t status = finish_parallel(context)) return status;
    if (*context->flag != 0 && runtime::poll() != 0) return static_cast<int64_t>(Status::interrupted);
    if (!team) return 0;
  }
  if (team->interrupted.load(std::memory_order_relaxed)) return static_cast<int64_t>(Status::interrupted);
  // A chunk before the failing one goes on; it may fail earlier still.
  return context->chunk > team->first_failed.load(std::memory_order_relaxed) ? static_cast<int64_t>(Status::failed) : 0;
}

int64_t run_parallel(Context* context, ParallelLoop* loop) {
  Teams& teams = teams_of(*context);
  Team& team = teams.next(*loop);
  // Nobody can tell workers of the one before not to begin with one that is to be done as a whole.
  if (!loop->polls && teams.pending && teams.pending->loop->polls) {
    if (const int64_t status = finish_parallel(context)) return status;
  }
  Team* const before = std::exchange(teams.pending, nullptr);
  const Division division = divide(*loop, *context);
  loop->chunks = division.chunks;
  if (loop->row_words > 0) {
    const auto words = static_cast<size_t>(division.chunks * loop->row_words + 8);
    if (teams.rows.size() < words) teams.rows.resize(words);
    loop->partials = teams.rows.data();
    loop->closure[kPartials] = reinterpret_cast<ir::Word>(loop->partials);
  }
  team.give(*loop, division, *context, before);
  if (division.chunks > 1 && loop->targets > 0) team.private_size = private_words(*loop);
  const size_t copied = team.private_size * static_cast<size_t>(division.threads);
  if (teams.copies.size() < copied) teams.copies.resize(copied);
  Team::keep(team.copies, copied > 0 ? teams.copies.data() : nullptr);
  _mm_sfence();  // what the caller's code stored around the caches
  const auto when = loop->may_pend ? runtime::Return::when_through : runtime::Return::when_done;
  const bool shared = division.chunks > 1 &&
                      runtime::run_job(team, std::min<int>(division.threads, static_cast<int>(division.chunks)), when);
  const bool pends = shared && loop->may_pend && !team.stop && !(before && before->stop);
  if (pends) {
    teams.pending = &team;
    return 0;
  }
  runtime::finish_job();
  if (before) {
    if (const int64_t status = result_of_pending(*before, *context)) return status;
  }
  if (!shared) {
    // The same chunks on one thread: the result does not depend on who was free.
    Context own;
    own.flag = context->flag;
    own.team = &team;
    own.memory = context->memory;
    for (int64_t chunk = 0; chunk < division.chunks; ++chunk) {
      team.run_chunk(own, loop->alone, loop->closure, chunk);
    }
  }
  return result_of(team, *context);
}

}  // namespace appy::cpu
