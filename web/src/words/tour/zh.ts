// 中文导览。键与 en.ts 相同。
import type { Facts } from "../../tour/facts";
import { MUCH } from "../../tour/quizzes";
import { term } from "../terms";
import type { TourWords } from "./en";

const percent = (share: number): string => `${(100 * share).toFixed(1)}%`;
const first = (f: Facts): string => f.made?.[0].piece ?? f.pair?.[0].piece ?? f.likely?.piece ?? "";
const NORMS: Record<string, string> = { layernorm: "层归一化", rmsnorm: "RMS 归一化" };

export const tourZh: TourWords = {
  position: (n, count) => `第 ${n} 站，共 ${count} 站`,
  end: "结束导览",
  show: "转到标出的部分",
  needsSentence: "导览跟着一个句子走完整个模型：请先翻译一句。",
  waits: "模型给出结果后，导览就开始……",
  tokens: "词元及其编号",
  quiz: "猜一猜",
  right: "答对了。",
  wrong: (right) => `不对，答案是“${right}”。`,
  yes: "会",
  no: "不会",
  keys: "← → 换一站，F6 在标出的部分与此处之间切换，Esc 结束",
  stops: {
    tokens: {
      title: "文本切成词元",
      text: (f) =>
        `模型不认字母。文本先被切成${term("词元")}，这里共 ${f.tokens.length} 个，都取自大小为 ${f.vocabulary} 的词表：常见的词是一个词元，少见的词会切成几个。模型得到的只有它们的编号。` +
        (f.pair ? `“${f.pair[0].piece}”的编号是 ${f.pair[0].id}，“${f.pair[1].piece}”的编号是 ${f.pair[1].id}：整个导览都跟着这两个词走。` : ""),
    },
    vectors: {
      title: "词元变成向量",
      text: (f) =>
        `每个编号在一张表（${term("嵌入")}）中查到一个 ${f.width} 维向量。注意力本身不知道先后顺序，` +
        (f.position === "none" ? "这个模型只能从掩码中学到顺序。" : `所以由${term("位置编码")}（${f.position}）说明每个词元的位置。`) +
        `图中的平面是各向量差别最大的那个平面（${term("主成分分析，PCA")}）。拖动滑块，看向量逐层移动：用法相近的词元最终彼此靠近。`,
      question: (f) => `词表中哪个词元离“${f.pair?.[0].piece}”最近？`,
      answer: (_, quiz) => `两者的${term("余弦相似度")}为 ${quiz.values[0]!.toFixed(2)}；方向完全相同时为 1。`,
    },
    head: {
      title: "一个头的运算",
      text: (f) =>
        `“${f.self!.from}”怎样找到“${f.self!.to}”？第 ${f.self!.layer + 1} 层的第 ${f.self!.head + 1} 个头用三个矩阵把每个向量变成${term("查询")}（要找什么）、${term("键")}（能提供什么）和${term("值")}（传递什么），各 ${f.headWidth} 维。查询与键逐项相乘再求和，得到${term("点积")}，缩放后就是分数。${term("softmax")} 把一行分数变成总和为 1 的权重。这里“${f.self!.from}”把 ${percent(f.self!.weight)} 的注意力给了“${f.self!.to}”。请走完面板中的各步：每个等式都可以验算。`,
      question: (f) => `还是这个头：“${f.pair?.[1].piece}”最关注哪个词元？`,
      answer: (_, quiz) => `它得到 ${percent(quiz.values[0]!)} 的权重。`,
    },
    heads: {
      title: "多个头，多个问题",
      text: (f) =>
        `一个头只问一个问题；${f.layers} 层中每层有 ${f.heads} 个头并行工作（${term("多头注意力")}）。每张小图是一个头在这个句子上的权重：行关注列，颜色越深权重越大。有的头看相邻的词，有的看同一个词，有的停在句末标记上。一层中各个头的结果拼接起来，再乘一个矩阵。`,
      question: (f, quiz) => `在全部 ${quiz.values[1]} 个头中，有几个头让“${f.self!.from}”把超过 ${100 * MUCH}% 的注意力给“${f.self!.to}”？`,
      answer: (_, quiz) => `${quiz.values[1]} 个头中有 ${quiz.values[0]} 个。`,
    },
    masked: {
      title: "解码器只看前面，不看后面",
      text: (f) =>
        `输出是一个词元一个词元写出来的：${f.written.join(" | ")}。选定一个词元时，后面的还不存在。训练时它们是存在的，所以用${term("因果掩码")}遮住：就是画斜线的三角形。这样，模型在所有位置上同时学习，而使用时逐个生成（${term("自回归")}解码）。`,
      question: (f) => `选定“${f.written[f.place] ?? ""}”时，解码器能看到几个词元？`,
      answer: (_, quiz) => `起始标记，以及在它之前写出的 ${quiz.values[0]! - 1} 个词元。`,
    },
    cross: {
      title: "交叉注意力：翻译发生的地方",
      text: (f) =>
        `写“${f.cross!.from}”时，第 ${f.cross!.layer + 1} 层的第 ${f.cross!.head + 1} 个头把 ${percent(f.cross!.weight)} 的注意力给了“${f.cross!.to}”。在${term("交叉注意力")}中，查询来自解码器，键和值来自编码器。没有人告诉过模型哪个词对应哪个词：这样做使训练文本的概率更大。逐行读下来，就是${term("词对齐")}。`,
      question: (f) => `写“${f.made![1].piece}”时，这个头看哪个词元？`,
      answer: (_, quiz) => `它得到 ${percent(quiz.values[0]!)} 的权重。`,
    },
    residual: {
      title: "相加，而不是替换",
      text: (f) =>
        `每一层得到的结果是加到向量上，而不是取代它：x + f(x)，即${term("残差连接")}。因此经过 ${f.layers} 层之后，“${f.pair?.[0].piece ?? first(f)}”的嵌入仍是其向量的一部分；训练时，梯度也有一条直通的路。` +
        (f.isPreNorm === null ? "" : `${f.isPreNorm ? "每次运算之前" : "每次相加之后"}的${term(NORMS[f.norm] ?? f.norm)}把数值保持在同一范围${f.norm === "layernorm" ? "：减去均值，再除以标准差" : ""}（${term(f.isPreNorm ? "前置归一化" : "后置归一化")}）。`),
      question: (f) => `在${f.side === "encoder" ? "编码器" : "解码器"}中，一个词元的向量一共被加了几次？`,
      answer: (_, quiz) => `${quiz.values[1]} 层，每层 ${quiz.values[0]! / quiz.values[1]!} 次。`,
    },
    feedforward: {
      title: "每个词元各自处理",
      text: (f) =>
        `注意力在词元之间传递信息；随后的${term("前馈网络")}（${f.feedforward}）只处理每个向量自身。` +
        (f.hidden ? `它把 ${f.width} 维扩展到 ${f.hidden} 维，只让其中一部分${term("神经元")}激活，再变回 ${f.width} 维。` : "") +
        `结果同样加到残差流上。句子中所有词元共用同一组权重。`,
      question: () => "这个模型有多少参数在前馈网络中？",
      answer: (_, quiz) => `${quiz.values[0]}%；注意力占 ${quiz.values[1]}%。`,
    },
    output: {
      title: "从向量到词",
      text: (f) =>
        `最后的向量与词表中 ${f.vocabulary} 个词元逐一比较，各得一个分数（${term("logit")}）。softmax 把它们变成${term("概率分布")}。` +
        (f.likely
          ? `在“${f.likely.after}”之后，“${f.likely.piece}”的概率是 ${percent(f.likely.probability)}，“${f.likely.second}”是 ${percent(f.likely.secondProbability)}；${term("熵")}为 ${f.likely.bits.toFixed(2)} 比特，表示有多不确定。${f.isForceable ? "点另一个词元：它会被放在这里，模型只能从它接着写。" : ""}`
          : ""),
      question: () => "模型在哪个位置最没有把握？",
      answer: (_, quiz) => `那里的熵是 ${quiz.values[0]!.toFixed(2)} 比特，相当于在 ${(2 ** quiz.values[0]!).toFixed(1)} 个同样可能的选择之间犹豫。`,
    },
    beam: {
      title: "同时保留几个候选",
      text: (f) =>
        `下一个最可能的词元，不一定能开出最可能的句子。${term("束搜索")}保留 ${f.beam.size} 个最好的开头（${term("假设")}）：${f.beam.steps} 步中考察了 ${f.beam.candidates} 个，剪掉了 ${f.beam.pruned} 个。每个假设的得分是对数概率除以长度惩罚。粗线胜出：“${f.result}”`,
      question: () => "如果每个位置都取最可能的词元（贪心搜索），会得到同样的译文吗？",
      answer: (f, quiz) =>
        quiz.values.length ? `在第 ${quiz.values[0]! + 1} 个位置，“${f.written[quiz.values[0]!]}”只排第 ${quiz.values[1]}，概率为 ${percent(quiz.values[2]!)}。` : "每个位置取的都是最可能的词元。",
    },
  },
};
