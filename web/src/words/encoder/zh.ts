// 编码器的预测、没有注意力权重的混合层、逐轮预测：中文。键与 en.ts 相同。
import type { EncoderWords } from "./en";

export const encoderZh: EncoderWords = {
  intro: "每个词元按模型在该位置给它的概率着色。选择一个词元，查看模型在那里还会放什么。",
  strip: "原文，按概率着色",
  guessedAt: (n) => `模型在第 ${n} 个位置上的预测`,
  seesIt: (piece) => `模型在这里看得见“${piece}”：把它遮住，模型就只能猜。`,
  hiddenHere: (piece) => `“${piece}”在这里被遮住：模型根据上下文来猜。`,
  maskHere: "原文在这里有一个遮盖标记：模型根据上下文来猜。",
  hide: "遮住它",
  show: "重新显示",
  stands: "原文",
  stood: "原词",
  rankStands: "原文中的词元的名次",
  rankStood: "原词的名次",

  labels: "标签",
  follows: "第二段文本是否承接第一段？",
  yes: "是",
  no: "否",
  score: "得分",
  scale: (low, high) => `范围从 ${low} 到 ${high}`,
  tags: "每个词的标注",
  word: "词",
  tag: "标注",
  similarity: "各文本的相似度",
  similarityNote: "各行文本向量的余弦：1 表示方向相同。其他面板显示第一行。输入多行即可比较。",

  influence: "影响",
  influenceNote: "拿掉列所对应词元的向量后，本层在各行的输出改变多少（占其长度的比例）。各行之和不是 1。",
  tooLong: (count, limit) => `文本有 ${count} 个词元；此图至多支持 ${limit} 个。`,

  iterations: {
    title: (count) => `一次写出全部词元，共 ${count} 轮`,
    intro: "这个模型不用束搜索：它一次写出全部词元，再遮住最没有把握的那些，看着其余词元重新预测。",
    table: "每一轮之后各位置上的词元，按概率着色",
    iteration: "轮次",
    predicted: (piece, share) => `${piece}：本轮预测，${share}`,
    again: (piece, share) => `${piece}：重新预测，结果不变，${share}`,
    kept: (piece, share) => `${piece}：保留，${share}`,
    legend: (shown) => `↻ 表示本轮被遮住并重新预测；其余保留。其他面板显示第 ${shown} 轮。`,
    choose: "点击另一轮的编号，即可在其他面板中查看那一轮。",
  },
};
