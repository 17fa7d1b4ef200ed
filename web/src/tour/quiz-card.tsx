// A question of one click. Whoever does not care goes on.
import { useState } from "preact/hooks";
import { partsOf } from "../words/terms";
import { tourWords } from "../words/tour";
import type { Facts } from "./facts";
import { quizOf } from "./quizzes";
import type { StopName } from "./stops";

export function QuizCard({ stop, facts }: { stop: StopName; facts: Facts }) {
  const t = tourWords.value;
  const [chosen, choose] = useState(-1);
  const { question, answer } = t.stops[stop];
  const quiz = question && quizOf(stop, facts, t.yes, t.no);
  if (!question || !quiz) return null;
  const isAnswered = chosen >= 0;
  const verdict = chosen === quiz.right ? t.right : t.wrong(quiz.options[quiz.right]!);
  return (
    <div class="quiz" role="group" aria-labelledby="quiz-question">
      <p id="quiz-question">
        <strong>{t.quiz}</strong> {question(facts, quiz)}
      </p>
      <p class="row">
        {quiz.options.map((option, n) => (
          <button type="button" key={option} data-option={n} aria-pressed={chosen === n} onClick={() => choose(n)}>
            {isAnswered && n === quiz.right && <span aria-hidden="true">✓ </span>}
            {n === chosen && n !== quiz.right && <span aria-hidden="true">✗ </span>}
            {option}
          </button>
        ))}
      </p>
      <p role="status" id="quiz-told" data-right={isAnswered ? chosen === quiz.right : undefined}>
        {isAnswered && partsOf(`${verdict} ${answer?.(facts, quiz) ?? ""}`).map((part) => (part.isTerm ? <dfn>{part.text}</dfn> : part.text))}
      </p>
    </div>
  );
}
