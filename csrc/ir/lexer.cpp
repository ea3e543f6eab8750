#include "ir/lexer.h"

#include <algorithm>
#include <charconv>

#include "ir/op_printer.h"
#include "ir/text.h"

namespace appy::ir {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name(char c) { return is_digit(c) || is_letter(c) || c == '.' || static_cast<unsigned char>(c) >= 0x80; }

std::string describe(const Token& token) {
  const std::string text(token.text);
  switch (token.kind) {
    case Token::Kind::end:
      return "the end of the text";
    case Token::Kind::value:
      return "%" + text;
    case Token::Kind::region:
      return "@" + text;
    case Token::Kind::string:
      return quoted(text);
    case Token::Kind::punctuation:
      return "'" + text + "'";
    default:
      return text;
  }
}

}  // namespace

void Lexer::fail(const Token& at, const std::string& message) {
  throw ParseError("line " + std::to_string(at.line) + ", column " + std::to_string(at.column) + ": " + message);
}

void Lexer::expected(std::string_view what, const Token& got) {
  fail(got, "expected " + std::string(what) + ", got " + describe(got));
}

void Lexer::skip_blank() {
  for (; position_ < text_.size(); ++position_) {
    const char c = text_[position_];
    if (c == '\n') {
      ++line_;
      line_begin_ = position_ + 1;
    } else if (c == '#' || (c == '/' && at(1) == '/')) {
      position_ = std::min(text_.find('\n', position_), text_.size()) - 1;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

/// Without the escapes of a string.
std::string Lexer::unescaped(std::string_view text) {
  std::string out;
  for (size_t k = 0; k < text.size(); ++k) {
    if (text[k] != '\\') {
      out += text[k];
      continue;
    }
    const char c = text[++k];
    if (c == 'n') {
      out += '\n';
    } else if (c == 't') {
      out += '\t';
    } else if (c == 'x') {
      int code = 0;
      const std::string_view digits = text.substr(k + 1, 2);
      const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16).ptr;
      if (digits.size() != 2 || end != digits.data() + 2) fail(token_, "expected two hexadecimal digits after \\x");
      out += static_cast<char>(code);
      k += 2;
    } else if (c == '"' || c == '\\') {
      out += c;
    } else {
      fail(token_, "unknown escape in a string");
    }
  }
  return out;
}

void Lexer::lex_string() {
  const size_t begin = ++position_;
  bool escapes = false;
  for (; at() != '"'; ++position_) {
    if (at() == '\\') {
      escapes = true;
      ++position_;
    }
    if (position_ >= text_.size() || at() == '\n') fail(token_, "expected '\"' at the end of the string");
  }
  token_.text = text_.substr(begin, position_++ - begin);
  if (escapes) token_.text = unescaped_.emplace_back(unescaped(token_.text));
}

void Lexer::advance() {
  skip_blank();
  const size_t begin = position_;
  token_ = Token{Token::Kind::end, "", line_, static_cast<int>(begin - line_begin_) + 1};
  if (begin == text_.size()) return;
  const char c = text_[begin];
  if (c == '"') {
    token_.kind = Token::Kind::string;
    return lex_string();
  }
  ++position_;
  if (c == '%' || c == '@') {
    token_.kind = c == '%' ? Token::Kind::value : Token::Kind::region;
    if (c == '@' && at() == '"') return lex_string();
    while (is_name(at())) ++position_;
    token_.text = text_.substr(begin + 1, position_ - begin - 1);
    if (token_.text.empty()) fail(token_, std::string("expected a name after '") + c + "'");
    return;
  }
  if (is_digit(c)) {
    token_.kind = Token::Kind::number;
    const bool hex = c == '0' && at() == 'x';
    for (; is_digit(at()) || is_letter(at()) || at() == '.'; ++position_) {
      if (!hex && at() == 'e' && (at(1) == '+' || at(1) == '-')) ++position_;
    }
  } else if (is_letter(c)) {
    token_.kind = Token::Kind::word;
    while (is_letter(at()) || is_digit(at())) ++position_;
  } else {
    token_.kind = Token::Kind::punctuation;
  }
  token_.text = text_.substr(begin, position_ - begin);
}

Token Lexer::take() {
  const Token taken = token_;
  advance();
  return taken;
}

bool Lexer::accept(char c) {
  if (!is(c)) return false;
  advance();
  return true;
}

bool Lexer::accept(std::string_view word) {
  if (!is(Token::Kind::word, word)) return false;
  advance();
  return true;
}

void Lexer::expect(char c) {
  if (!accept(c)) expected(std::string("'") + c + "'");
}

void Lexer::expect(std::string_view word) {
  if (!accept(word)) expected("'" + std::string(word) + "'");
}

Token Lexer::expect(Token::Kind kind, std::string_view what) {
  if (token_.kind != kind) expected(what);
  return take();
}

int64_t Lexer::integer(std::string_view what, int64_t lo, int64_t hi) {
  const Token start = token_;
  const bool negative = accept('-');
  if (token_.kind != Token::Kind::number) expected(what);
  const Token number = take();
  const auto digits = [&] { return (negative ? "-" : "") + std::string(number.text); };
  uint64_t magnitude = 0;
  const char* const last = number.text.data() + number.text.size();
  const auto [end, error] = std::from_chars(number.text.data(), last, magnitude);
  const bool fits = magnitude <= static_cast<uint64_t>(INT64_MAX) + (negative ? 1 : 0);
  if (error == std::errc::result_out_of_range || (error == std::errc() && end == last && !fits))
    fail(start, "expected " + std::string(what) + " that fits, got " + digits());
  if (error != std::errc() || end != last) expected(what, number);
  const auto value = static_cast<int64_t>(negative ? -magnitude : magnitude);
  if (value < lo || value > hi) {
    fail(start, "expected " + std::string(what) + " from " + std::to_string(lo) + " to " + std::to_string(hi) +
                    ", got " + digits());
  }
  return value;
}

}  // namespace appy::ir
