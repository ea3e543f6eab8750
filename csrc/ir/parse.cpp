#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "ir/half.h"
#include "ir/lexer.h"
#include "ir/text.h"
#include "ir/typing.h"

namespace appy::ir {

namespace {

using Kind = Token::Kind;

constexpr int kMaxDepth = 256;
constexpr int64_t kIntMax = std::numeric_limits<int32_t>::max();

template <class E, class NameOf>
bool find_name(std::string_view text, int count, NameOf name, E& found) {
  for (int i = 0; i < count; ++i) {
    if (name(static_cast<E>(i)) == text) {
      found = static_cast<E>(i);
      return true;
    }
  }
  return false;
}

enum : int {
  kOps = 0
#define X(name, arity, effect, rule) +1
#include "ir/ops.def"
#undef X
  ,
  kTypes = 0
#define X(name, bits, cls) +1
#include "ir/types.def"
#undef X
  ,
  kChecks = 0
#define X(name, exception, ninfo) +1
#include "ir/checks.def"
#undef X
  ,
  kCombiners = 0
#define X(name, op) +1
#include "ir/combiners.def"
#undef X
};

const std::unordered_map<std::string_view, Opcode>& opcodes() {
  static const auto all = [] {
    std::unordered_map<std::string_view, Opcode> made;
    for (int i = 0; i < kOps; ++i) made.emplace(info(static_cast<Opcode>(i)).name, static_cast<Opcode>(i));
    return made;
  }();
  return all;
}

bool all_digits(std::string_view s) {
  return std::all_of(s.begin(), s.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Parser {
 public:
  explicit Parser(std::string_view text) : lex_(text), graph_(std::make_unique<Graph>()) {}

  std::unique_ptr<Graph> run() {
    lex_.expect("region");
    graph_->name = lex_.expect(Kind::region, "the region's name (@name)").text;
    lex_.expect('(');
    while (!lex_.is(')')) {
      const Token name = value_token();
      lex_.expect(':');
      define(name, add_arg(*graph_->body, type()));
      if (lex_.accept("in")) graph_->body->args.back()->range = range();
      if (!lex_.is(')')) lex_.expect(',');
    }
    lex_.expect(')');
    if (lex_.accept("exact")) graph_->exact = true;
    if (lex_.accept("may_alias")) graph_->may_alias = true;
    if (lex_.accept("no_auto_simd")) graph_->auto_simd = false;
    if (lex_.accept("no_inspectors")) graph_->inspectors = false;
    if (lex_.accept("boxes")) graph_->boxes = true;
    for (const auto& [word, number] : {std::pair("registers", &graph_->registers), {"workers", &graph_->workers}}) {
      if (!lex_.accept(word)) continue;
      lex_.expect('(');
      *number = static_cast<int>(lex_.integer("a number", 1, kIntMax));
      lex_.expect(')');
    }
    if (lex_.accept("cache")) {
      lex_.expect('(');
      graph_->cache = lex_.integer("bytes", 1);
      lex_.expect(')');
    }
    if (lex_.accept("given")) given();
    if (lex_.accept("solves")) graph_->solve = solve();
    if (lex_.accept("factors")) graph_->factorization = factorization();
    if (lex_.accept("results")) {
      lex_.expect('(');
      do {
        graph_->result_names.emplace_back(lex_.expect(Kind::string, "a result's name in quotes").text);
      } while (lex_.accept(','));
      lex_.expect(')');
    }
    block(*graph_->body);
    while (lex_.accept("remark")) graph_->remarks.push_back(remark());
    if (lex_.peek().kind != Kind::end) lex_.expected("the end of the text");
    return std::move(graph_);
  }

 private:
  struct Pending {
    std::vector<Token> results;
    Token start;
  };

  /// One number for each scalar, `[extent, ...]` for each array.
  void given() {
    lex_.expect('(');
    for (const Value* arg : graph_->body->args) {
      if (arg->index > 0) lex_.expect(',');
      graph_->given.resize(graph_->given.size() + words_of(arg->type));
      Word* word = &graph_->given[first_word(*graph_, arg->index)];
      if (!arg->type.is_view()) {
        *word = static_cast<Word>(lex_.integer("what the parameter is"));
        continue;
      }
      lex_.expect('[');
      for (int d = 0; d < arg->type.rank; ++d) {
        if (d > 0) lex_.expect(',');
        *++word = static_cast<Word>(lex_.integer("an extent", 0));
      }
      lex_.expect(']');
    }
    lex_.expect(')');
  }

  const Value& parameter() {
    const Token name = value_token();
    const auto found = scope_.find(name.text);
    if (found == scope_.end()) Lexer::fail(name, "%" + std::string(name.text) + " is no parameter");
    return *found->second;
  }

  uint32_t array(int rank) {
    const Token at = lex_.peek();
    const Value& v = parameter();
    if (!v.type.is_view() || v.type.rank != rank)
      Lexer::fail(at, "it is no array of " + std::to_string(rank) + " dimensions");
    return v.index;
  }

  Length length() {
    const bool of_array = lex_.accept("dim");
    const auto dim = of_array ? static_cast<int>(lex_.integer("a dimension", 0, kIntMax)) : -1;
    const Token at = lex_.peek();
    const Value& v = parameter();
    if (of_array ? !v.type.is_view() || dim >= v.type.rank : v.type.is_view() || v.type.dtype != DType::i64_)
      Lexer::fail(at, "it has no such dimension, or is no i64");
    return {v.index, dim};
  }

  Solve solve() {
    Solve out;
    lex_.expect('(');
    out.matrix = array(2);
    lex_.expect(',');
    out.x = array(1);
    lex_.expect(',');
    out.b = array(1);
    lex_.expect(',');
    out.rows = length();
    forms("transposed", out.transposed, "unit", out.unit);
    return out;
  }

  Factorization factorization() {
    Factorization out;
    lex_.expect('(');
    out.matrix = array(2);
    lex_.expect(',');
    out.columns = length();
    forms("transposed", out.transposed, "blocked", out.blocked);
    return out;
  }

  /// The end of an attribute: which of two words it says.
  void forms(std::string_view one, bool& says_one, std::string_view other, bool& says_other) {
    while (lex_.accept(',')) {
      if (lex_.accept(one)) {
        says_one = true;
      } else {
        lex_.expect(other);
        says_other = true;
      }
    }
    lex_.expect(')');
  }

  Token value_token() { return lex_.expect(Kind::value, "a value (%name)"); }

  void define(const Token& name, Value* value) {
    if (!scope_.emplace(name.text, value).second)
      Lexer::fail(name, "%" + std::string(name.text) + " is already defined");
    if (!all_digits(name.text)) value->name = name.text;
    defined_.push_back(name.text);
  }

  Value* use() {
    const Token name = value_token();
    const auto found = scope_.find(name.text);
    if (found == scope_.end())
      Lexer::fail(name, "expected a value that is visible here, got %" + std::string(name.text));
    return found->second;
  }

  std::vector<Value*> uses() {
    std::vector<Value*> values;
    if (lex_.peek().kind != Kind::value) return values;
    do {
      values.push_back(use());
    } while (lex_.accept(','));
    return values;
  }

  std::vector<Value*> uses_in_parentheses() {
    lex_.expect('(');
    std::vector<Value*> values = uses();
    lex_.expect(')');
    return values;
  }

  Type type() {
    const Token word = lex_.expect(Kind::word, "a type");
    Type made;
    if (!find_name(
            word.text, kTypes, [](DType t) { return name_of(t); }, made.dtype))
      Lexer::expected("a type", word);
    if (!lex_.accept('[')) return made;
    made.rank = static_cast<int8_t>(lex_.integer("a rank", 0, 127));
    lex_.expect(',');
    const Token layout = lex_.expect(Kind::word, "a layout");
    constexpr std::string_view kLayouts[] = {"strided", "inner", "c", "f", "pairs"};
    if (!find_name(
            layout.text, 5, [&](Layout l) { return kLayouts[static_cast<size_t>(l)]; }, made.layout)) {
      Lexer::expected("a layout (strided, inner, c, f or pairs)", layout);
    }
    lex_.expect(']');
    return made;
  }

  Range range() {
    Range r;
    lex_.expect('[');
    r.lo = lex_.integer("the lower end of a range");
    lex_.expect(',');
    r.hi = lex_.integer("the upper end of a range");
    lex_.expect(']');
    return r;
  }

  /// The types after ':', one a result.
  void result_types(Op& op, const Pending& pending) {
    std::vector<Type> types;
    if (!pending.results.empty()) {
      lex_.expect(':');
      do {
        types.push_back(type());
      } while (lex_.accept(','));
    }
    if (types.size() != pending.results.size()) {
      Lexer::fail(pending.start, "expected " + std::to_string(types.size()) + " results, one a type, got " +
                                     std::to_string(pending.results.size()));
    }
    for (const Type& t : types) add_result(op, t);
  }

  void block(Block& block) {
    if (++depth_ > kMaxDepth) Lexer::fail(lex_.peek(), "expected blocks nested less deeply");
    lex_.expect('{');
    const size_t outer = defined_.size();
    while (!lex_.is('}')) statement(block);
    lex_.expect('}');
    leave_scope(outer);
    --depth_;
  }

  void leave_scope(size_t outer) {
    for (; defined_.size() > outer; defined_.pop_back()) scope_.erase(defined_.back());
  }

  void statement(Block& block) {
    Pending pending;
    pending.start = lex_.peek();
    if (lex_.peek().kind == Kind::value) {
      do {
        pending.results.push_back(value_token());
      } while (lex_.accept(','));
      lex_.expect('=');
    }
    const Token word = lex_.expect(Kind::word, "an operation");
    const auto found = opcodes().find(word.text);
    if (found == opcodes().end()) Lexer::expected("an operation", word);
    const Opcode code = found->second;
    const bool gives = info(code).rule != Rule::none;
    const bool structured = code == Opcode::for_ || code == Opcode::while_ || code == Opcode::if_;
    if (!structured && pending.results.size() != (gives ? 1u : 0u)) {
      Lexer::fail(pending.start,
                  "expected " + std::string(gives ? "one result" : "no result") + " of " + std::string(word.text));
    }
    Op* op = graph_->new_op(code, 0);
    operation(*op, pending);
    block.append(op);
    for (size_t i = 0; i < pending.results.size(); ++i) define(pending.results[i], op->results[i]);
  }

  void operation(Op& op, const Pending& pending) {
    switch (op.code) {
      case Opcode::const_:
        return constant(op, pending);
      case Opcode::dim_:
        op.dim = static_cast<int32_t>(lex_.integer("a dimension", 0, 127));
        op.operands.push_back(use());
        break;
      case Opcode::alloc_:
        op.operands = uses();
        lex_.expect("slot");
        op.slot = static_cast<int32_t>(lex_.integer("a slot", 0, kIntMax - 1));
        graph_->reserve_slots(op.slot + 1);
        op.escapes = lex_.accept("escapes");
        if (lex_.accept("lead"))
          op.lead = static_cast<int32_t>(lex_.integer("a number of elements", 0, kCacheLine - 1));
        break;
      case Opcode::atomic_:
        op.combiner = combiner();
        [[fallthrough]];
      case Opcode::store_:
        op.operands.push_back(use());
        lex_.expect(',');
        [[fallthrough]];
      case Opcode::load_:
        op.operands.push_back(use());
        access(op);
        break;
      case Opcode::check_:
        check(op);
        break;
      case Opcode::poll_:
        if (lex_.accept("state")) op.operands = uses_in_parentheses();
        break;
      case Opcode::barrier_:
        op.mapping = mapping("workers or lanes");
        break;
      case Opcode::for_:
      case Opcode::while_:
        return loop(op, pending);
      case Opcode::if_:
        op.operands.push_back(use());
        result_types(op, pending);
        op.loc = location();
        op.blocks = {graph_->new_block(&op), graph_->new_block(&op)};
        block(*op.blocks[0]);
        lex_.expect("else");
        block(*op.blocks[1]);
        return;
      default: {
        const Token first = lex_.peek();
        op.operands = uses();
        const int arity = info(op.code).arity;
        if (arity >= 0 && op.operands.size() != static_cast<size_t>(arity)) {
          Lexer::fail(first, "expected " + std::to_string(arity) + " operands of " + std::string(info(op.code).name) +
                                 ", got " + std::to_string(op.operands.size()));
        }
      }
    }
    result_types(op, pending);
    op.loc = location();
  }

  void constant(Op& op, const Pending& pending) {
    const Token start = lex_.peek();
    const bool negative = lex_.accept('-');
    const Token literal = lex_.take();
    if (literal.kind != Kind::number && literal.kind != Kind::word) Lexer::expected("a literal", literal);
    Token payload;
    if (literal.text == "nan" && lex_.accept('(')) {
      payload = lex_.expect(Kind::number, "the bits of the NaN");
      lex_.expect(')');
    }
    result_types(op, pending);
    const Type type = op.results[0]->type;
    if (type.is_view() || !word(type.dtype, negative, literal.text, payload.text, op.imm)) {
      Lexer::fail(start, "expected a literal of type " + std::string(name_of(type.dtype)));
    }
    op.loc = location();
  }

  static bool word(DType t, bool negative, std::string_view literal, std::string_view payload, Word& imm) {
    const std::string text = (negative ? "-" : "") + std::string(literal);
    const char* const end = text.data() + text.size();
    const auto whole = [&](std::from_chars_result r) { return r.ec == std::errc() && r.ptr == end; };
    switch (class_of(t)) {
      case TypeClass::boolean:
        imm = text == "true";
        return text == "true" || text == "false";
      case TypeClass::sint: {
        int64_t value = 0;
        if (!whole(std::from_chars(text.data(), end, value))) return false;
        imm = static_cast<Word>(value);
        return canonical(t, imm) == imm;
      }
      case TypeClass::uint:
        return whole(std::from_chars(text.data(), end, imm)) && canonical(t, imm) == imm;
      case TypeClass::real:
        break;
    }
    if (!payload.empty()) {
      if (payload.substr(0, 2) != "0x" || negative) return false;
      const char* const stop = payload.data() + payload.size();
      const auto [at, error] = std::from_chars(payload.data() + 2, stop, imm, 16);
      if (error != std::errc() || at != stop || canonical(t, imm) != imm) return false;
      if (is_half(t)) return std::isnan(half_value(t, imm));
      return std::isnan(t == DType::f32_ ? std::bit_cast<float>(static_cast<uint32_t>(imm))
                                         : std::bit_cast<double>(imm));
    }
    if (text == "nan") {
      imm = quiet_nan(t);
      return true;
    }
    if (literal == "nan") return false;
    if (t == DType::f32_) {
      float value = 0;
      if (!whole(std::from_chars(text.data(), end, value))) return false;
      imm = std::bit_cast<uint32_t>(value);
      return true;
    }
    double value = 0;
    if (!whole(std::from_chars(text.data(), end, value))) return false;
    imm = is_half(t) ? half_word(t, value) : std::bit_cast<uint64_t>(value);
    return true;
  }

  Combiner combiner() {
    const Token word = lex_.expect(Kind::word, "a combiner");
    Combiner found{};
    if (!find_name(
            word.text, kCombiners, [](Combiner c) { return name_of(c); }, found)) {
      Lexer::expected("a combiner", word);
    }
    return found;
  }

  void access(Op& op) {
    op.access = std::make_unique<Access>();
    Access& access = *op.access;
    const Token open = lex_.peek();
    lex_.expect('[');
    if (!lex_.is(']')) {
      do {
        row(op);
      } while (lex_.accept(','));
    }
    lex_.expect(']');
    for (auto& row : access.coef) row.resize(static_cast<size_t>(access.terms), 0);
    const Type view = op.view()->type;
    if (view.is_view() && access.offset.size() != static_cast<size_t>(view.rank)) {
      Lexer::fail(open,
                  "expected " + std::to_string(view.rank) + " subscripts, got " + std::to_string(access.offset.size()));
    }
  }

  void row(Op& op) {
    Access& access = *op.access;
    access.offset.push_back(0);
    Access::Row& coef = access.coef.emplace_back(static_cast<size_t>(access.terms), 0);
    bool negative = lex_.accept('-');
    do {
      const Token start = lex_.peek();
      uint64_t factor = 1;
      bool has_term = true;
      if (start.kind == Kind::number) {
        lex_.take();
        const char* const end = start.text.data() + start.text.size();
        const auto [at, error] = std::from_chars(start.text.data(), end, factor);
        constexpr uint64_t kMax = INT64_MAX;
        if (error != std::errc() || at != end || factor > kMax + (negative ? 1 : 0)) {
          Lexer::expected("an integer that fits", start);
        }
        has_term = lex_.accept('*');
      } else if (start.kind != Kind::value) {
        lex_.expected("a subscript");
      }
      int64_t* target = &access.offset.back();
      if (has_term) {
        Value* term = use();
        const auto begin = op.operands.end() - access.terms;
        const auto at = std::find(begin, op.operands.end(), term);
        const auto k = static_cast<size_t>(at - begin);
        if (at == op.operands.end()) {
          op.operands.push_back(term);
          ++access.terms;
          coef.push_back(0);
        }
        target = &coef[k];
      }
      *target = static_cast<int64_t>(static_cast<uint64_t>(*target) + (negative ? -factor : factor));
      negative = lex_.is('-');
    } while (lex_.accept('+') || lex_.accept('-'));
  }

  void check(Op& op) {
    op.check = std::make_unique<Check>();
    Check& check = *op.check;
    const Token word = lex_.expect(Kind::word, "a kind of check");
    if (!find_name(
            word.text, kChecks, [](CheckKind k) { return name_of(k); }, check.kind)) {
      Lexer::expected("a kind of check", word);
    }
    op.operands.push_back(use());
    const auto part = [&](std::string_view name) {
      lex_.accept(',');
      return lex_.accept(name);
    };
    if (part("info")) {
      const std::vector<Value*> values = uses_in_parentheses();
      check.ninfo = static_cast<int>(values.size());
      op.operands.insert(op.operands.end(), values.begin(), values.end());
    }
    if (part("state")) {
      const std::vector<Value*> values = uses_in_parentheses();
      check.has_state = true;
      op.operands.insert(op.operands.end(), values.begin(), values.end());
    }
    check.declines = part("declines");
    if (lex_.accept(':')) check.text = lex_.expect(Kind::string, "the check's text in quotes").text;
  }

  void loop(Op& op, const Pending& pending) {
    const size_t outer = defined_.size();
    Block* body = graph_->new_block(&op);
    op.blocks = {body};
    std::vector<Token> names;
    Token variable;
    if (op.code == Opcode::for_) {
      op.loop = std::make_unique<Loop>();
      loop_flags(op);
      variable = value_token();
      for (const char* before : {"=", "to", "step"}) {
        if (*before == '=') {
          lex_.expect('=');
        } else {
          lex_.expect(std::string_view(before));
        }
        op.operands.push_back(use());
      }
    }
    if (!op.loop && lex_.accept("mapped")) {
      lex_.expect('(');
      op.mapping = mapping("single");
      lex_.expect(')');
    }
    if (lex_.accept("carry")) {
      lex_.expect('(');
      do {
        if (op.loop) op.loop->carried.push_back(carried());
        names.push_back(value_token());
        lex_.expect('=');
        op.operands.push_back(use());
      } while (lex_.accept(','));
      lex_.expect(')');
    }
    if (names.size() != pending.results.size()) {
      Lexer::fail(pending.start, "expected " + std::to_string(names.size()) + " results, one a carried value, got " +
                                     std::to_string(pending.results.size()));
    }
    result_types(op, pending);
    op.loc = location();
    if (op.loop) define(variable, add_arg(*body, scalar(DType::i64_)));
    for (size_t k = 0; k < names.size(); ++k) define(names[k], add_arg(*body, op.results[k]->type));
    block(*body);
    leave_scope(outer);
  }

  void loop_flags(Op& op) {
    Loop& loop = *op.loop;
    while (lex_.peek().kind == Kind::word) {
      const Token word = lex_.take();
      const auto number = [&](int64_t hi) {
        lex_.expect('(');
        const int64_t value = lex_.integer("a number", 0, hi);
        lex_.expect(')');
        return value;
      };
      if (word.text == "parallel") {
        loop.parallel = true;
      } else if (word.text == "simd") {
        loop.simd = true;
      } else if (word.text == "annotated") {
        loop.annotated = true;
      } else if (word.text == "schedule") {
        schedule(loop);
      } else if (word.text == "le") {
        loop.le = number(INT64_MAX);
      } else if (word.text == "threads") {
        loop.threads = static_cast<int32_t>(number(kIntMax));
      } else if (word.text == "collapse") {
        loop.collapse = static_cast<int32_t>(number(kIntMax));
      } else if (word.text == "tiles") {
        loop.tiles = true;
      } else if (word.text == "mapped") {
        lex_.expect('(');
        op.mapping = mapping("workers, columns, lanes, threads, single or repeated");
        lex_.expect(')');
      } else {
        Lexer::expected("a loop attribute or the loop variable", word);
      }
    }
  }

  Mapping mapping(const char* expected) {
    const Token word = lex_.expect(Kind::word, expected);
    Mapping found = Mapping::none;
    const auto name = [](Mapping m) { return name_of(m); };
    if (!find_name(word.text, 7, name, found) || found == Mapping::none) Lexer::expected(expected, word);
    return found;
  }

  void schedule(Loop& loop) {
    lex_.expect('(');
    const Token word = lex_.expect(Kind::word, "a schedule");
    constexpr std::string_view kNames[] = {"automatic", "static", "dynamic"};
    if (!find_name(
            word.text, 3, [&](Schedule s) { return kNames[static_cast<size_t>(s)]; }, loop.schedule)) {
      Lexer::expected("a schedule (automatic, static or dynamic)", word);
    }
    if (lex_.accept(',')) loop.chunk = lex_.integer("a chunk", 0);
    lex_.expect(')');
  }

  Carried carried() {
    Carried made;
    if (lex_.peek().kind != Kind::word) return made;
    made.combiner = combiner();
    if (!lex_.accept('(')) return made;
    if (lex_.accept("leader")) made.leader = static_cast<int>(lex_.integer("a carried index", 0, kIntMax));
    lex_.accept(',');
    if (lex_.accept("tie")) made.tie = static_cast<int>(lex_.integer("a carried index", 0, kIntMax));
    if (made.leader < 0 && made.tie < 0) lex_.expected("'leader' or 'tie'");
    lex_.expect(')');
    return made;
  }

  Remark remark() {
    Remark made;
    if (!lex_.accept("note")) {
      lex_.expect("warning");
      made.severity = Severity::warning;
    }
    made.stage = lex_.expect(Kind::string, "the name of a stage in quotes").text;
    lex_.expect(':');
    made.text = lex_.expect(Kind::string, "a text in quotes").text;
    made.loc = location();
    return made;
  }

  LocId location() {
    if (!lex_.accept("loc")) return 0;
    lex_.expect('(');
    std::vector<Loc> chain;
    do {
      if (!chain.empty()) lex_.expect("at");
      Loc at;
      if (!lex_.is(':') || file_.empty()) file_ = lex_.expect(Kind::string, "a file in quotes").text;
      at.file = file_;
      lex_.expect(':');
      at.line = static_cast<int>(lex_.integer("a line", 0, kIntMax));
      lex_.expect(':');
      at.column = static_cast<int>(lex_.integer("a column", 0, kIntMax));
      chain.push_back(std::move(at));
    } while (lex_.accept("inlined"));
    lex_.expect(')');
    LocId outer = 0;
    for (; !chain.empty(); chain.pop_back()) {
      chain.back().inlined_at = outer;
      outer = graph_->add_loc(std::move(chain.back()));
    }
    return outer;
  }

  Lexer lex_;
  std::unique_ptr<Graph> graph_;
  std::unordered_map<std::string_view, Value*> scope_;
  std::vector<std::string_view> defined_;
  std::string file_;  // of the location before
  int depth_ = 0;
};

}  // namespace

std::unique_ptr<Graph> parse(std::string_view text) { return Parser(text).run(); }

}  // namespace appy::ir
