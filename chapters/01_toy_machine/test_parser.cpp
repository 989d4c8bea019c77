// Accepted trace files, and the message, line and column of every error.
#include <doctest/doctest.h>

#include <string>

#include "common/error.hpp"
#include "parser.hpp"

using namespace ch01;

namespace {

// Returns the error message of parsing and validating `text`, or "" if there is no error.
std::string message_of(const std::string& text) {
  try {
    validate(parse_program(text, "t"));
  } catch (const fa::InputError& error) {
    return error.what();
  }
  return "";
}

const std::string kMac =  // 6 lines
    ".machine mac\n.registers 3\n.input a[2][2]\n.input b[2][2]\n.output c[2][2]\n"
    ".check matmul c[0][0]\n";
const std::string kAlu =  // 5 lines
    ".machine alu\n.registers 2\n.input x[2]\n.output out[1]\n.check ratio\n";

bool says(const std::string& text, const std::string& start) {
  const std::string message = message_of(text);
  CAPTURE(message);
  CHECK(message.substr(0, start.size()) == start);
  CHECK(message.find('\n') == std::string::npos);
  return message.starts_with(start);
}

}  // namespace

TEST_CASE("a program is read as it is written") {
  const Program p =
      parse_program("# a comment\n" + kMac +
                        "12 cycles\n\tLOAD a[1][0], r0   # lower case\r\nLOAD b[0][1] , R1\n"
                        "MAC_Z R0,R1,R2 -> p₁ @no-max\n",
                    "t");
  CHECK(p.registers == 3);
  CHECK(p.operands == OperandRule::kFixed);
  CHECK(p.promised_cycles == 12);
  CHECK(p.check_cell == 0);
  REQUIRE(p.instructions.size() == 3);
  CHECK(p.arrays[0].values == std::vector<float>{1, 2, 3, 4});
  CHECK(p.instructions[0].cell.index == 2);
  CHECK(p.instructions[0].place.line == 9);
  CHECK(p.instructions[0].place.column == 2);
  CHECK(p.instructions[2].result_name == "p₁");
  CHECK(p.instructions[2].removed_by == std::vector<std::string>{"no-max"});
  CHECK(instruction_text(p, p.instructions[2]) == "MAC_Z R0, R1, R2");
}

TEST_CASE("a byte-order mark is no part of a program") {
  const std::string mark = "\xef\xbb\xbf", line = "LOAD a[0][0], R0\n";
  CHECK(parse_program(mark + kMac + line, "t").instructions.size() == 1);
  says(mark + line, "t:1:1: no .machine line before the first instruction");
  says(mark + mark + kMac, "t:1:1: ");
  says({"\xff\xfe.\0m\0", 6}, "t: is text in UTF-16; save it as UTF-8");
  says({"\xfe\xff\0.\0m", 6}, "t: is text in UTF-16; save it as UTF-8");
  CHECK(message_of(mark) == message_of(""));
}

TEST_CASE("errors in instructions name line and column") {
  says(kMac + "LAOD a[0][0], R0", "t:7:1: unknown instruction 'LAOD'");
  says(kMac + "  EXP R0, R1", "t:7:3: EXP is not on this machine: the MAC machine has LOAD STORE");
  says(kAlu + "MAC R0, R1, R0, R0", "t:6:1: MAC is not on this machine: the ALU machine has LOAD");
  says(kMac + "LOAD a[0][0], R3", "t:7:15: R3 does not exist: the machine has R0 to R2");
  says(kMac + "LOAD a[0][0], R0\nMAC_Z R0, R1, R2", "t:8:11: R1 is empty");
  says(kMac + "STORE R1, c[0][0]", "t:7:7: R1 is empty");
  says(kMac + "LOAD a[0][2], R0", "t:7:11: subscript 2 is outside array a: 0 to 1");
  says(kMac + "LOAD a[2][0], R0", "t:7:8: subscript 2 is outside array a: 0 to 1");
  says(kMac + "LOAD c[0][0], R0", "t:7:6: c[0][0] was not written yet");
  says(kMac + "LOAD d[0][0], R0", "t:7:6: no array 'd'");
  says(kMac + "LOAD a[0], R0", "t:7:10: expected '[' after array a, which has 2 subscripts");
  says(kAlu + "LOAD x[0][0], R0", "t:6:6: array x has 1 subscripts");
  says(kMac + "LOAD a[0][-1], R0", "t:7:11: expected a subscript, a whole number");
  says(kMac + "LOAD a[0][99999999999], R0", "t:7:11: a subscript 99999999999: at most");
  says(kMac + "LOAD a[0][0 , R0", "t:7:13: expected ']' after the subscript");
  says(kMac + "LOAD a[0][0], R0\nSTORE R0, a[0][0]", "t:8:11: array a is an input: read-only");
  says(kMac + "LOAD a[0][0]", "t:7:13: expected ',' after the cell (LOAD cell, Rd), found the end");
  says(kMac + "LOAD a[0][0],", "t:7:14: expected a register, such as R0 (LOAD cell, Rd), found");
  says(kMac + "LOAD a[0][0], X", "t:7:15: expected a register, such as R0 (LOAD cell, Rd)");
  says(kMac + "LOAD a[0][0], R", "t:7:16: expected the register's number, a whole number");
  says(kMac + "LOAD , R0", "t:7:6: expected a cell, such as a[0][1]");
  says(kMac + "MAC_Z R0, R1", "t:7:13: expected ',' after the register (MAC_Z R0, R1, Rd), found");
  says(kMac + "LOAD a[0][0], R0, R1", "t:7:19: too many operands (LOAD cell, Rd)");
  says(kMac + "LOAD a[0][0], R0 R1", "t:7:18: unexpected 'R1' at the end of the line");
  says(kMac + "LOAD a[0][0], R0 ->", "t:7:20: expected a name after '->'");
  says(kMac + "LOAD a[0][0], R0 - m", "t:7:18: expected '->' and a name for the result");
  says(kMac + "LOAD a[0][0], R0\nSTORE R0, c[0][0] -> m", "t:8:19: STORE has no result to name");
  says(kMac + "LOAD a[0][0], R0 @no-min", "t:7:18: '@no-min' is not a break");
  // Columns count characters, not bytes.
  says(kMac + "LOAD a[0][0], R0 -> αβγ δ", "t:7:25: unexpected 'δ' at the end of the line");
}

TEST_CASE("the operand rule of the fixed machine") {
  const std::string loads = "LOAD a[0][0], R0\nLOAD b[0][0], R1\nLOAD a[0][1], R2\n";
  says(kMac + loads + "MAC_Z R1, R0, R2", "t:10:7: the first operand of MAC_Z is R0, not R1");
  says(kMac + loads + "MAC_Z R0, R2, R2", "t:10:11: the second operand of MAC_Z is R1, not R2");
  says(kMac + loads + "MAC R0, R0, R2, R2", "t:10:9: the second operand of MAC is R1, not R0");
  CHECK(message_of(kMac + loads + "MAC R0, R1, R2, R0") == "");
  CHECK(message_of(".operands any\n" + kMac + loads + "MAC_Z R2, R1, R0") == "");
}

TEST_CASE("errors in directives name line and column") {
  says(".machine gpu", "t:1:10: .machine 'gpu': accepted: mac, alu");
  says(".machine mac alu", "t:1:14: unexpected 'alu' at the end of the line");
  says(".machine mac\n.machine alu", "t:2:1: .machine stands twice");
  says(".frob 1", "t:1:1: unknown directive '.frob': accepted:");
  says(".registers", "t:1:11: expected .registers, a whole number");
  says(".registers 0", "t:1:12: .registers 0: at least 1");
  says(".registers 129", "t:1:12: .registers 129: at most 128");
  says(".registers -3", "t:1:12: expected .registers, a whole number");
  says(".operands some", "t:1:11: .operands 'some': accepted: fixed, any");
  says(".input [2]", "t:1:8: expected the array's name");
  says(".input x", "t:1:9: expected '[' after the array's name, found the end of the line");
  says(".input x[0]", "t:1:10: length 0: at least 1");
  says(".input x[2][2][2]", "t:1:16: arrays have one or two subscripts");
  says(".input x[65536][65536]", "t:1:8: array x is too big");
  says(".input x[65537]", "t:1:10: length 65537: at most 65536");
  says(".input x[2] = 1", "t:1:8: array x has 2 cells, but 1 values stand here");
  says(".input x[2] = 1, 2, 3", "t:1:8: array x has 2 cells, but 3 values stand here");
  says(".input x[1] = nan", "t:1:15: value 'nan': expected a finite number");
  says(".input x[1] = 1e39", "t:1:15: value '1e39': expected a finite number that fp32 can hold");
  says(".input x[1] = 1x", "t:1:15: value '1x': expected a finite number");
  says(".input x[1] =", "t:1:14: value '': expected a finite number");
  says(".input x[2]\n.output x[2]", "t:2:9: array x stands twice");
  says(".check nothing", "t:1:8: .check 'nothing': accepted: matmul, softmax");
  says(".input x[2]\n.check ratio x[0]", "t:2:14: only a cell of the output can be checked");
  says(".check ratio out[0]", "t:1:14: no array 'out'");
  says("7 cycle", "t:1:3: expected 'cycles' after a number");
  says("7 cycles\n7 cycles", "t:2:1: a second promise of cycles");
  says("LOAD a[0][0], R0", "t:1:1: no .machine line before the first instruction");
  says("", "t:1:1: no instructions");
  says(kMac, "t:1:1: no instructions");
  says(".machine mac\n.input a[1]\nLOAD a[0], R0", "t:1:1: no .check line");
  says(kAlu + "LOAD x[0], R0\n.registers 3", "t:7:1: .registers stands twice");
  says(".machine mac\n.input a[1]\nLOAD a[0], R0\n.operands any",
       "t:4:1: .operands must be before");
  says(".machine mac\n.check sum\n.input a[1]\nLOAD a[0], R0",
       "t: no .registers line and no --registers");
}

TEST_CASE("whatever the file holds, the message is one printable line") {
  says(".machine mac\n\x01\x02\xff", "t:2:1: unknown instruction '?");
  says(std::string(".machine mac\n") + std::string(5000, 'q'), "t:2:1: unknown instruction 'qqq");
  CHECK(message_of(std::string(100000, 'q')).size() < 400);
  says(std::string("\0\0\0", 3), "t:1:1:");
}
